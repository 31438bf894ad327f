package mesh

import (
	"cmp"
	"fmt"
	"maps"
	"net"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/tare-mesh/tare/internal/base/hint"
	"github.com/tare-mesh/tare/internal/base/lists"
	"github.com/tare-mesh/tare/internal/metric"
)

// Control is a process of the control plane. It has its own address and starts
// before every pod.
type Control struct {
	// Name is unique in the mesh. Templates use it: {{.Control.<name>.IP}}.
	Name string `yaml:"name" json:"name" required:"add name: server" form:"label"`
	// Option of the sidecar with which it runs: if that is "true" or above 0. Empty means that it always runs.
	Option string `yaml:"option,omitempty" json:"option,omitempty"`
	// Program is found by the platform, as for a sidecar.
	Program string `yaml:"program" json:"program" required:"add the name of one on PATH, or its path"`
	// Args are its arguments, each a text/template over [ControlContext].
	Args []string `yaml:"args,omitempty" json:"args,omitempty" in:"control" as:"template"`
	// Config is a text/template over [ControlContext], written to .ConfigPath.
	Config string `yaml:"config,omitempty" json:"config,omitempty" in:"control" as:"template"`
	// Environment is added to the environment of the program.
	Environment map[string]string `yaml:"environment,omitempty" json:"environment,omitempty" keys:"variable"`
	// Ports are names. The platform chooses a free port for each, for TCP and UDP.
	Ports []string `yaml:"ports,omitempty" json:"ports,omitempty"`
	// Ready are requests, sent in order, each until the response is 2xx.
	Ready []Request `yaml:"ready" json:"ready" required:"add requests whose response is 2xx once it is ready" in:"control"`
	// Version is the request that returns the version. Absent means unknown.
	Version *Answer `yaml:"version,omitempty" json:"version,omitempty" in:"control"`
}

// Request is an HTTP request to the control plane. Every text is a template.
type Request struct {
	Method string            `yaml:"method,omitempty" json:"method,omitempty"` // default: GET, or PUT with a body
	URL    string            `yaml:"url" json:"url" required:"add its URL" as:"template"`
	Header map[string]string `yaml:"header,omitempty" json:"header,omitempty" as:"template"`
	Body   string            `yaml:"body,omitempty" json:"body,omitempty" as:"template"`
}

// Answer is a field of a JSON response.
type Answer struct {
	Request `yaml:",inline"`
	Field   string `yaml:"field" json:"field" required:"name the field of the answer that has it"` // names with dots between them, e.g. Config.Version
}

// Certificates describe how tare's probes of the mesh get certificates. The
// control plane is then the certificate authority.
type Certificates struct {
	// Identity is the SPIFFE ID of a service, a template over [CertificateContext].
	Identity string `yaml:"identity" json:"identity" required:"add the SPIFFE ID of a service, e.g. spiffe://example.test/{{.Service}}" in:"certificate" as:"template"`
	// Roots returns the authority's certificates as PEM.
	Roots Request `yaml:"roots" json:"roots" in:"certificate"`
	// Issue returns JSON: a certificate for .Service and its key, as PEM in two fields.
	Issue Request `yaml:"issue" json:"issue" in:"certificate"`
	Chain string  `yaml:"chain" json:"chain" required:"name the field of the answer that has the certificate"`
	Key   string  `yaml:"key" json:"key" required:"name the field of the answer that has the key"`
}

// Bootstrap is a command that prints a sidecar's configuration. Every text is a
// template over [SidecarContext].
type Bootstrap struct {
	Program string            `yaml:"program" json:"program" required:"add the program that prints the configuration"`
	Args    []string          `yaml:"args" json:"args" as:"template"`
	Env     map[string]string `yaml:"env,omitempty" json:"env,omitempty" as:"template"`
}

// Secrets returns the secret of each name, a UUID, for one deployment. No file
// with a secret is kept.
type Secrets func(name string) string

// Secret is how templates call it: {{.Secret "admin"}}.
func (s Secrets) Secret(name string) string {
	if s == nil {
		return ""
	}
	return s(name)
}

// Programs are the names of all programs the mesh runs, each once.
func (l Local) Programs() []string {
	names := []string{l.Sidecar.Program}
	if l.Sidecar.Bootstrap != nil {
		names = append(names, l.Sidecar.Bootstrap.Program)
	}
	for _, c := range l.Controls() {
		names = append(names, c.Program)
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// ServiceContext is one service of the topology, or the load generator.
type ServiceContext struct {
	Name     string
	Protocol string   // http1, http2, grpc, tcp, websocket
	Callers  []string // services that may call it; none: no service calls it
}

// ControlContext is the data of the templates of a control-plane process.
type ControlContext struct {
	Name       string
	IP         string         // its own address
	Ports      map[string]int // by the definition's names
	ConfigPath string
	DataDir    string // of this process only, removed with the deployment
	Services   []ServiceContext
	Options    map[string]string // of the sidecars
	Changing   bool              // the experiment makes changes
	// Control are the processes that were started before it, by name.
	Control map[string]ControlContext
	Secrets
}

// CertificateContext is the data of the templates of [Certificates].
type CertificateContext struct {
	Service string
	Control map[string]ControlContext
	Secrets
}

// Controls are the processes of the control plane that run with the chosen options.
func (l Local) Controls() (all []Control) {
	return lists.Where(l.Control, func(c Control) bool { return c.Option == "" || l.enabled(c.Option) })
}

// enabled reports whether an option of the sidecar is "true", or a number above 0.
func (l Local) enabled(option string) bool {
	o := l.Sidecar.Options[option]
	return o.Default == on || o.UpTo > 0 && o.Default != "0"
}

// Render executes the templates of a process of the control plane.
func (c Control) Render(ctx ControlContext) (args []string, config []byte, err error) {
	var r rendering
	args, config = r.texts("args", c.Args, ctx), []byte(r.text("config", c.Config, ctx))
	return args, config, r.err(c.Name)
}

func (r Request) Render(ctx any) (Request, error) {
	var t rendering
	done := Request{Method: r.Method, URL: t.text("url", r.URL, ctx), Body: t.text("body", r.Body, ctx), Header: map[string]string{}}
	for _, name := range slices.Sorted(maps.Keys(r.Header)) {
		done.Header[name] = t.text("header."+name, r.Header[name], ctx)
	}
	if done.Method == "" {
		done.Method = "GET"
		if done.Body != "" {
			done.Method = "PUT"
		}
	}
	return done, t.err("a request")
}

// Render executes the templates of the command, where env are "K=V".
func (b Bootstrap) Render(ctx SidecarContext) (args, env []string, err error) {
	var r rendering
	args = r.texts("args", b.Args, ctx)
	for _, name := range slices.Sorted(maps.Keys(b.Env)) {
		env = append(env, name+"="+r.text("env."+name, b.Env[name], ctx))
	}
	return args, env, r.err("the bootstrap of " + ctx.Pod)
}

// IdentityOf renders the SPIFFE ID of a service.
func (c Certificates) IdentityOf(ctx CertificateContext) (string, error) {
	var r rendering
	identity := r.text("identity", c.Identity, ctx)
	return identity, r.err("the identity of " + ctx.Service)
}

// Render executes the templates of a reload.
func (r Reload) Render(ctx SidecarContext) (Reload, error) {
	var t rendering
	r.URL, r.Socket = t.text("url", r.URL, ctx), t.text("socket", r.Socket, ctx)
	return r, t.err("the reload of " + ctx.Pod)
}

// Listeners are the names of a sidecar's listeners, as its admin interface shows them.
type Listeners struct {
	Inbound  string            // empty beside the load generator
	Outbound map[string]string // by service
	// Endpoints are gauges, by service, that must equal the number of the
	// service's replicas before the sidecar is ready.
	// Empty means that its configuration lists them.
	Endpoints map[string]string
}

// default names of the listeners.
const (
	inboundListener  = "inbound"
	outboundListener = "outbound-{{.Out.Service}}"
)

// Listeners executes the names of a sidecar's listeners.
func (s Sidecar) Listeners(ctx SidecarContext) (Listeners, error) {
	l := Listeners{Outbound: map[string]string{}, Endpoints: map[string]string{}}
	var r rendering
	if ctx.Inbound != nil {
		l.Inbound = r.text("inboundListener", cmp.Or(s.InboundListener, inboundListener), ctx)
	}
	for _, out := range ctx.Outbound {
		data := outboundContext{ctx, out}
		l.Outbound[out.Service] = r.text("outboundListener", cmp.Or(s.OutboundListener, outboundListener), data)
		if s.OutboundEndpoints != "" {
			l.Endpoints[out.Service] = r.text("outboundEndpoints", s.OutboundEndpoints, data)
		}
	}
	return l, r.err("the listeners of " + ctx.Pod)
}

// Series is a family of metrics in Prometheus' text format.
type Series struct {
	Port   int    `yaml:"port" json:"port" range:"1,65535"`
	Path   string `yaml:"path" json:"path" form:"path"`
	Metric string `yaml:"metric" json:"metric" required:"add its name as the process shows it"`
}

// Updates is a page of a proxy with instants in the format of RFC 3339, as "last_updated": "2006-01-02T15:04:05.999Z".
type Updates struct {
	// Direction of the requests that the configuration is of: inbound at the entry's proxies, outbound at the load's.
	Direction string `yaml:"direction" json:"direction" oneOf:"inbound,outbound"`
	Port      int    `yaml:"port" json:"port" range:"1,65535"`
	Path      string `yaml:"path" json:"path" form:"path"`
	// Field is the name before each instant.
	Field string `yaml:"field" json:"field" required:"add its name on the page, such as last_updated"`
}

// Times are the instants on a page.
func (u Updates) Times(page []byte) (all []time.Time, err error) {
	for _, found := range regexp.MustCompile(`"`+regexp.QuoteMeta(u.Field)+`":\s*"([^"]*)"`).FindAllSubmatch(page, -1) {
		at, err := time.Parse(time.RFC3339, string(found[1]))
		if err != nil {
			return nil, fmt.Errorf("read the instants of %s: %w", u.Field, err)
		}
		all = append(all, at)
	}
	return all, nil
}

// ControlTime is a histogram of the control plane.
type ControlTime struct {
	Stage string `yaml:"stage" json:"stage" required:"add a name for tables, such as debounce"` // its name in reports
	// PodLabel selects pods in the mesh's namespace. A prefix ends in "*".
	PodLabel map[string]string `yaml:"podLabel" json:"podLabel"`
	Port     int               `yaml:"port" json:"port" range:"1,65535"`
	Path     string            `yaml:"path" json:"path" form:"path"`
	Metric   string            `yaml:"metric" json:"metric" required:"add its name as the control plane shows it"`
	Unit     string            `yaml:"unit,omitempty" json:"unit,omitempty" oneOf:"s,ms"` // of its times; absent: s
}

// Scale is its unit in seconds.
func (t ControlTime) Scale() float64 {
	if t.Unit == "ms" {
		return 0.001
	}
	return 1
}

func (t ControlTime) mistakes(report func(field, message, hint string)) {
	if len(t.PodLabel) == 0 {
		report("podLabel", "missing: needed to find the pods of the control plane", "add labels of the pods")
	}
}

// Selects reports whether a pod in the mesh's namespace has the histogram.
func (t ControlTime) Selects(labels map[string]string) bool { return has(labels, t.PodLabel) }

// CountedTime is a histogram of one stage in one process, since the process started.
type CountedTime struct {
	Stage    string
	Instance string // of the process: another one begins to count again
	Count    int64
	Seconds  float64           // sum of all times
	Within   map[float64]int64 // times up to a bound, in seconds
}

// Types of resources of xDS.
const (
	ClusterType  = "type.googleapis.com/envoy.config.cluster.v3.Cluster"
	EndpointType = "type.googleapis.com/envoy.config.endpoint.v3.ClusterLoadAssignment"
	ListenerType = "type.googleapis.com/envoy.config.listener.v3.Listener"
	RouteType    = "type.googleapis.com/envoy.config.route.v3.RouteConfiguration"
)

// Values of [Sidecar.Ready] beside a path.
const (
	ReadyTCP   = "tcp"
	ReadyAdmin = "admin"
)

// commandFields are the templates of the fields of a command, ${listen} and others.
var commandFields = map[string]string{
	"listen": "{{.Listen}}", "listen.host": "{{host .Listen}}", "listen.port": "{{port .Listen}}",
	"upstream": "{{.Upstream}}", "upstream.host": "{{host .Upstream}}", "upstream.port": "{{port .Upstream}}",
	"dir": "{{.Dir}}", "admin": "{{.Admin}}", "admin.host": "{{host .Admin}}", "admin.port": "{{port .Admin}}", "socket": "{{.AdminPath}}",
	"config": "{{.ConfigPath}}", "ip": "{{.IP}}", "concurrency": "{{.Concurrency}}",
}

// CommandFields lists the fields of a command and of its configuration, for a reference.
func CommandFields() string {
	return "${" + strings.Join(slices.Sorted(maps.Keys(commandFields)), "}, ${") + "}"
}

var commandField = regexp.MustCompile(`\$\{([^}]*)\}`)

// FromCommand returns the definition of a sidecar that is any program. Paths in its command are relative to dir. requests is its
// counter of requests, empty for none. The error has a hint.
func FromCommand(name string, s Sidecar, requests, dir string) (Definition, error) {
	d := Definition{Name: name, Description: "A proxy of your own: " + strings.Join(s.Command, " "), Local: &Local{Sidecar: s}}
	if s.Counters != nil {
		if requests == "" {
			return d, hint.New("write requests: NAME", "counters.requests is missing: the name of its counter of requests")
		}
		d.Local.Verify = Verify{Unit: UnitRequest, Inbound: requests, Outbound: requests}
	}
	return d, d.complete(dir)
}

var (
	listenerField = regexp.MustCompile(`\{\{[^}]*\.(Listen|Upstream)\b`)
	dirField      = regexp.MustCompile(`\{\{[^}]*\.Dir\b`)
)

// hostOf and portOf are functions of templates.
func hostOf(address string) (string, error) {
	host, _, err := net.SplitHostPort(address)
	return host, err
}

func portOf(address string) (string, error) {
	_, port, err := net.SplitHostPort(address)
	return port, err
}

// command completes a definition with a command, and reports its mistakes.
func (v *validation) command(d *Definition, dir string) {
	const at = "local.sidecar.command"
	if s := d.Local.Sidecar; s.Program != "" || len(s.Args) > 0 {
		v.report(at, "both a command and a program with arguments", "remove one of the two")
	}
	if err := d.complete(dir); err != nil {
		v.report(at, err.Error(), hint.Of(err))
	}
}

// complete derives program, arguments, ports and attribution rules of a sidecar with a command.
func (d *Definition) complete(dir string) error {
	s := &d.Local.Sidecar
	var err error
	if s.Dir, err = filepath.Abs(dir); err != nil {
		return err
	}
	if s.Program = s.Command[0]; strings.Contains(s.Program, "/") && !filepath.IsAbs(s.Program) {
		s.Program = filepath.Join(s.Dir, s.Program)
	}
	s.Args = nil
	for _, word := range s.Command[1:] {
		word, err := commandTemplate(word)
		if err != nil {
			return err
		}
		s.Args = append(s.Args, word)
	}
	if s.Config, err = commandTemplate(s.Config); err != nil {
		return err
	}
	if c := s.Counters; c != nil {
		if err := c.problem(); err != nil {
			return err
		}
		read := *c
		for _, text := range []*string{&read.URL, &read.Socket} {
			if *text, err = commandTemplate(*text); err != nil {
				return err
			}
		}
		s.Counters = &read
	}
	s.Ready = cmp.Or(s.Ready, ReadyTCP)
	switch kind := s.ReadyKind(); {
	case s.Program == "":
		return hint.New("write the program", "the first word is empty")
	case !s.PerListener() && s.Config == "":
		return hint.New("write ${listen} where it takes the address to listen on, and ${upstream} where it takes the address to forward to",
			"no word contains ${listen}, and there is no configuration: the program would not know where to listen")
	case kind != ReadyTCP && kind != ReadyAdmin && !strings.HasPrefix(kind, "/"):
		return hint.New("", "ready: found %q, expected tcp, admin or a path such as /healthz", kind)
	}
	s.ChoosePorts = s.ChoosePorts || s.ReadyKind() != ReadyAdmin
	if len(d.Tasks) == 0 {
		d.Tasks = []Rule{
			{Plane: metric.Data, Role: "sidecar", Component: "load", Service: "load", Container: "sidecar*"},
			{Plane: metric.Data, Role: "sidecar", Container: "sidecar*"},
		}
	}
	return nil
}

// commandTemplate replaces the fields of a command by templates.
func commandTemplate(text string) (string, error) {
	for _, m := range commandField.FindAllStringSubmatch(text, -1) {
		template, ok := commandFields[m[1]]
		if !ok {
			return "", hint.New("fields: "+strings.Join(slices.Sorted(maps.Keys(commandFields)), ", "), "there is no field %.40s", m[0])
		}
		text = strings.ReplaceAll(text, m[0], template)
	}
	return text, nil
}

// ReadyKind is how the platform waits for the sidecar: [ReadyTCP], [ReadyAdmin], or the path of requests.
func (s Sidecar) ReadyKind() string {
	if s.Ready == "" {
		return ReadyAdmin
	}
	return s.Ready
}

// PerListener reports whether each listener has a process of its own, because its templates read .Listen or .Upstream.
func (s Sidecar) PerListener() bool {
	return slices.ContainsFunc(append(slices.Clone(s.Args), s.Config), listenerField.MatchString)
}

// UsesDir reports whether the sidecar needs a directory for its state, because its templates read .Dir.
func (s Sidecar) UsesDir() bool {
	return slices.ContainsFunc(slices.Concat(s.Args, []string{s.Config}, slices.Collect(maps.Values(s.Files))), dirField.MatchString)
}
