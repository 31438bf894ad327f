package mesh

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"text/template"

	"github.com/tare-mesh/tare/internal/base/hint"
	"github.com/tare-mesh/tare/internal/base/strict"
)

// Render executes the sidecar's templates for one pod: the arguments of its
// program and its configuration. The caller writes config to ctx.ConfigPath.
func (s Sidecar) Render(ctx SidecarContext) (args []string, config []byte, err error) {
	if len(ctx.AdminPath) > maxSocketPath {
		return nil, nil, fmt.Errorf("render sidecar of %s: %w: %d bytes, max %d: %s",
			ctx.Pod, ErrSocketPath, len(ctx.AdminPath), maxSocketPath, ctx.AdminPath)
	}
	ctx.Concurrency = cmp.Or(ctx.Concurrency, max(s.Concurrency, 1))
	if ctx.Options == nil {
		ctx.Options = s.Chosen()
	}
	var r rendering
	args, config = r.texts("args", s.Args, ctx), []byte(r.text("config", s.Config, ctx))
	return args, config, r.err("sidecar of " + ctx.Pod)
}

// RenderFiles executes the templates of the further files, by name.
func (s Sidecar) RenderFiles(ctx SidecarContext) (map[string][]byte, error) {
	ctx.Concurrency, ctx.Options = max(s.Concurrency, 1), s.Chosen()
	all := map[string][]byte{}
	var r rendering
	for name, text := range s.Files {
		all[name] = []byte(r.text("files."+name, text, ctx))
	}
	return all, r.err("sidecar of " + ctx.Pod)
}

// Render executes the templates of a source.
func (c CounterSource) Render(ctx SidecarContext) (url, socket string, err error) {
	var r rendering
	both := r.texts("counters", []string{c.URL, c.Socket}, ctx)
	return both[0], both[1], r.err("counters of " + ctx.Pod)
}

// Counters are the names of one sidecar's counters, as its statistics show them.
type Counters struct {
	Inbound           string // empty beside the load generator, which has no clients
	InboundSent       string // empty: no counter
	InboundHandshakes string // empty without mTLS
	Denied            string // empty: no counter
	Features          []FeatureCounter
	Outbound          []OutboundCounters
}

// OutboundCounters are the counters of requests to one service.
type OutboundCounters struct {
	Service    string
	Sent       string
	Received   string // empty: no counter
	Handshakes string // empty without mTLS
	Retries    string // empty where there are none
	Timeouts   string // empty where there are none
	Features   []FeatureCounter
}

// FeatureCounter is the counter that shows that an option acts.
type FeatureCounter struct{ Option, Counter string }

// outboundContext is the data of the templates of outbound counters.
type outboundContext struct {
	SidecarContext
	Out Outbound
}

// Counters executes the counter names for one sidecar.
func (l Local) Counters(ctx SidecarContext) (Counters, error) {
	var c Counters
	v := l.Verify
	var r rendering
	features := func(counter func(Feature) string, data any) (all []FeatureCounter) {
		for _, f := range l.Features() {
			if text := counter(f); text != "" {
				all = append(all, FeatureCounter{f.Option, r.text("features", text, data)})
			}
		}
		return all
	}
	if ctx.Inbound != nil {
		c.Inbound = r.text("inbound", v.Inbound, ctx)
		c.InboundSent = r.text("inboundSent", v.InboundSent, ctx)
		c.InboundHandshakes = r.text("inboundHandshakes", v.InboundHandshakes, ctx)
		c.Denied = r.text("denied", v.Denied, ctx)
		c.Features = features(func(f Feature) string { return f.Inbound }, ctx)
	}
	for _, out := range ctx.Outbound {
		data := outboundContext{ctx, out}
		c.Outbound = append(c.Outbound, OutboundCounters{
			Service:    out.Service,
			Sent:       r.text("outbound", v.Outbound, data),
			Received:   r.text("outboundReceived", v.OutboundReceived, data),
			Handshakes: r.text("outboundHandshakes", v.OutboundHandshakes, data),
			Retries:    r.text("retries", v.Retries, data),
			Timeouts:   r.text("timeouts", v.Timeouts, data),
			Features:   features(func(f Feature) string { return f.Outbound }, data),
		})
	}
	return c, r.err("counters of " + ctx.Pod)
}

// rendering executes templates. After an error it continues, so that the caller checks err once, at its end.
type rendering struct{ first error }

// text executes a template over data. name is the template's name in an error.
func (r *rendering) text(name, text string, data any) string {
	b, err := execute(name, text, data)
	r.first = cmp.Or(r.first, err)
	return string(b)
}

func (r *rendering) texts(name string, texts []string, data any) (all []string) {
	for i, text := range texts {
		all = append(all, r.text(fmt.Sprintf("%s[%d]", name, i), text, data))
	}
	return all
}

// mapping executes the values of a mapping. A template may leave out its key, by an empty text.
func (r *rendering) mapping(from map[string]string, data any) map[string]string {
	to := map[string]string{}
	for _, key := range slices.Sorted(maps.Keys(from)) {
		if text := r.text(key, from[key], data); text != "" {
			to[key] = text
		}
	}
	return to
}

// err returns the first error of the templates of something.
func (r *rendering) err(what string) error {
	if r.first == nil {
		return nil
	}
	return fmt.Errorf("render %s: %w", what, r.first)
}

func execute(name, text string, data any) ([]byte, error) {
	t, err := template.New(name).Option("missingkey=error").Funcs(functions).Parse(text)
	if err != nil {
		return nil, err
	}
	var b bytes.Buffer
	if err := t.Execute(&b, data); err != nil {
		return nil, err
	}
	return b.Bytes(), nil
}

// maxSocketPath is the length of sun_path on Linux without its final zero byte (unix(7)).
const maxSocketPath = 107

// ErrSocketPath is wrapped by the error about an admin socket with a path too long for the system.
var ErrSocketPath = hint.New("set TMPDIR or XDG_RUNTIME_DIR to a shorter path", "path of a Unix socket is too long")

// functions are additional functions of templates.
var functions = template.FuncMap{
	// json quotes a value, to prevent injection into YAML or JSON.
	"json": func(v any) (string, error) {
		var b bytes.Buffer
		enc := json.NewEncoder(&b)
		enc.SetEscapeHTML(false)
		if err := enc.Encode(v); err != nil {
			return "", err
		}
		return string(bytes.TrimRight(b.Bytes(), "\n")), nil
	},
	"host": hostOf,
	"port": portOf,
	// count lists the numbers from 1 to the value of an option.
	"count": func(text string) ([]int, error) {
		n, err := strconv.Atoi(text)
		if err != nil || n < 0 || n > maxCount {
			return nil, fmt.Errorf("%.20q is not a number from 0 to %d", text, maxCount)
		}
		all := make([]int, n)
		for i := range all {
			all[i] = i + 1
		}
		return all, nil
	},
}

// maxCount bounds repetitions in a template: the ports of an address.
const maxCount = 65535

// templateError matches an error of text/template: line from 1 and, for errors
// of execution, column from 0 in bytes.
var templateError = regexp.MustCompile(`(?s)^template: t:(\d+)(?::(\d+))?: (?:executing "t" at )?(.*)$`)

func (v *validation) templateProblem(path string, sample any, err error) {
	m := templateError.FindStringSubmatch(err.Error())
	if m == nil {
		v.doc.Report(path, "invalid template: "+err.Error(), "")
		return
	}
	message, hint := "invalid template: "+m[3], ""
	switch {
	case strings.Contains(message, "nil pointer"):
		hint = "the sidecar of the load generator has no Inbound: put the part into {{if .Inbound}} … {{end}}"
		if _, is := sample.(EnrolContext); is {
			hint = "where the load does not come through a gateway there is none: put the part into {{with .Gateway}} … {{end}}"
		}
	case strings.Contains(message, "map has no entry for key"):
		hint = "an option must be declared in options before it is used"
	case strings.Contains(message, "can't evaluate field"):
		hint = fields(sample)
	}
	line, _ := strconv.Atoi(m[1])
	column, _ := strconv.Atoi(m[2])
	at := v.doc.At(path)
	indent, is := v.literal(at)
	if !is {
		v.doc.Report(path, message, hint)
		return
	}
	v.inTemplates = append(v.inTemplates, strict.Problem{
		File: at.File, Line: at.Line + line, Column: indent + column + 1, Message: path + ": " + message, Tip: hint,
	})
}

// fields lists the fields of a template's data, for a hint.
func fields(sample any) string {
	const inside = "; within a range or with they are $.%s, …"
	switch sample.(type) {
	case ControlContext:
		return "fields of ControlContext: Name, IP, Ports, ConfigPath, DataDir, Services, Options, Control, Secret" + fmt.Sprintf(inside, "IP")
	case ChangeContext:
		return "fields of ChangeContext: Service, Version, Before, Endpoints, Pod, CertPath, KeyPath, Control, Secret"
	case BackgroundContext:
		return "fields of BackgroundContext: Services, Number, Control, Secret"
	case CertificateContext:
		return "fields of CertificateContext: Service, Control, Secret"
	case InstallContext:
		return "fields of InstallContext: Version, Profile, Replicas, Namespace, Revision, ClusterNetworks, ServiceCIDR, ClusterDomain, Distribution, Hub, Options, Certificates"
	case EnrolContext:
		return "fields of EnrolContext: Version, Profile, Replicas, Namespace, Revision, MeshNamespace, LoadInside, Gateway, Closed, Services, Hub, Options"
	}
	return "fields of SidecarContext: Pod, Service, Identity, IP, Port, Listen, Upstream, Concurrency, ConfigPath, AdminPath, Dir, " +
		"CertPath, KeyPath, CAPath, Inbound, Outbound, Control, Secret" + fmt.Sprintf(inside, "Pod")
}

// literal reports whether a block literal ("|") begins at a position, and the
// indentation of its text.
func (v *validation) literal(at strict.Position) (indent int, is bool) {
	lines := bytes.Split(v.text, []byte("\n"))
	if at.Line < 1 || at.Line > len(lines) {
		return 0, false
	}
	rest := []rune(string(lines[at.Line-1]))
	if at.Column > len(rest) || rest[at.Column-1] != '|' {
		return 0, false
	}
	for _, l := range lines[at.Line:] {
		if text := bytes.TrimLeft(l, " "); len(bytes.TrimSpace(text)) > 0 {
			return len(l) - len(text), true
		}
	}
	return 0, true
}

// sampleContexts are two contexts: a service's pod that calls two others, and the
// load generator, without clients.
func sampleContexts(s Sidecar, control map[string]ControlContext) []any {
	pod := SidecarContext{
		Port: 9000, Listen: "127.0.0.2:9000", Upstream: "127.0.0.2:8080", Control: control, Secrets: sampleSecrets,
		Pod: "echo-0", Service: "echo", Identity: "spiffe://tare.local/echo", IP: "127.0.0.2", Concurrency: 1,
		ConfigPath: "/run/echo-0/config.yaml", AdminPath: "/run/echo-0/admin", Dir: "/run/echo-0", Admin: "127.0.0.2:9900",
		CertPath: "/run/echo-0/cert.pem", KeyPath: "/run/echo-0/key.pem", CAPath: "/run/ca.pem",
		Inbound:  &Inbound{AppIP: "127.0.0.2", AppPort: 8080, Callers: []string{"spiffe://tare.local/load"}, CallerNames: []string{"load"}},
		Outbound: sampleOutbound("users", "orders"), Options: s.Chosen(), Files: map[string]string{},
	}
	for name := range s.Files {
		pod.Files[name] = "/run/" + name
	}
	load := pod
	load.Pod, load.Service, load.Identity = "load", "load", "spiffe://tare.local/load"
	load.Inbound, load.Outbound = nil, sampleOutbound("echo")
	return []any{pod, load}
}

func sampleOutbound(services ...string) []Outbound {
	var all []Outbound
	for i, s := range services {
		all = append(all, Outbound{Service: s, Identity: "spiffe://tare.local/" + s, Endpoints: []Endpoint{{IP: "127.0.0.3", Port: 9000 + i}}})
	}
	return all
}

func sampleControlContext(c Control, options map[string]string, before map[string]ControlContext) ControlContext {
	ctx := ControlContext{
		Options: options,
		Name:    c.Name, IP: "127.0.0.9", Ports: map[string]int{}, ConfigPath: "/run/" + c.Name, DataDir: "/run/" + c.Name + "-data",
		Control: before, Secrets: sampleSecrets,
		Services: []ServiceContext{{Name: "echo", Protocol: "http1", Callers: []string{"load"}}, {Name: "load", Protocol: "http1"}},
	}
	for i, port := range c.Ports {
		ctx.Ports[port] = 9100 + i
	}
	return ctx
}

func sampleSecrets(string) string { return "00000000-0000-4000-8000-000000000000" }
