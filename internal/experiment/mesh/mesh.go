// Package mesh reads mesh definitions: data files about the features of a mesh,
// how its data plane starts beside a service, how its traffic is verified, and
// the plane of each of its tasks.
//
// Definitions are YAML files in definitions/ (embedded). A user's own file goes
// through the same loader. No code depends on a mesh's name.
package mesh

import (
	"embed"
	"errors"
	"fmt"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"

	"github.com/tare-mesh/tare/internal/base/cgroup"
	"github.com/tare-mesh/tare/internal/base/hint"
	"github.com/tare-mesh/tare/internal/base/lists"
	"github.com/tare-mesh/tare/internal/base/strict"
	"github.com/tare-mesh/tare/internal/metric"
)

// problem returns the mistake of a source, with a hint.
func (c CounterSource) problem() error {
	switch {
	case !slices.Contains(CounterFormats(), c.Format):
		return hint.New("", "counters.format: found %.40q, expected %s", c.Format, strings.Join(CounterFormats(), ", "))
	case c.Socket == "" && c.URL == "":
		return hint.New("write url: http://${admin}/metrics, or socket: ${socket}", "counters have neither a url nor a socket")
	case c.URL == "" && c.Format != CountersHAProxy && c.Format != CountersEnvoy:
		return hint.New("write url: http://proxy/metrics", "counters.url is missing: the format %s is read by HTTP", c.Format)
	}
	return nil
}

type Definition struct {
	Name        string   `yaml:"name" json:"name" required:"add name: my-mesh" form:"label"`
	Description string   `yaml:"description" json:"description"`
	From        string   `yaml:"-" json:"from,omitempty"` // of a variant: the definition that it changes
	Provides    Provides `yaml:"provides,omitempty" json:"provides"`
	// Recorded: tare's own tests read what it renders and recorded objects. They do not run it.
	Recorded bool `yaml:"recorded,omitempty" json:"recorded,omitempty"`
	// Text of the file that it was read from.
	Text []byte `yaml:"-" json:"-"`
	// Local describes the mesh as processes on one machine. If it is absent, the mesh does not run there.
	Local *Local `yaml:"local,omitempty" json:"local,omitempty"`
	// Kubernetes describes the mesh in a cluster. If it is absent, the mesh does not run there.
	Kubernetes *Kubernetes `yaml:"kubernetes,omitempty" json:"kubernetes,omitempty"`
	// Tasks are the attribution rules: the first that matches wins.
	Tasks []Rule `yaml:"tasks,omitempty" json:"tasks,omitempty"`
}

// Provides lists features of the mesh, so that a report can point out a comparison of unequal meshes.
type Provides struct {
	MTLS      bool `yaml:"mtls,omitempty" json:"mtls"`           // the mesh, by name, provides mutual TLS
	L7        bool `yaml:"l7,omitempty" json:"l7"`               // it provides L7 routing
	Retries   bool `yaml:"retries,omitempty" json:"retries"`     // it provides retries
	Telemetry bool `yaml:"telemetry,omitempty" json:"telemetry"` // it provides telemetry
}

// Local is a data plane of one sidecar process per pod, or of one gateway, and its control plane.
type Local struct {
	// Place is "sidecar" (beside every pod and the load generator), or "gateway" (one process between the load and the entry).
	// Absent means sidecar.
	Place string `yaml:"place,omitempty" json:"place,omitempty"`
	// Control are the processes of the control plane, in the order in which they start.
	// Without any, sidecars have static configurations.
	Control []Control `yaml:"control,omitempty" json:"control,omitempty"`
	// Certificates of the control plane. Absent means that tare issues one to each pod.
	Certificates *Certificates `yaml:"certificates,omitempty" json:"certificates,omitempty"`
	Sidecar      Sidecar       `yaml:"sidecar" json:"sidecar" required:"add program: envoy, or the path of another"`
	// Changes are requests to the control plane that change a route or endpoints, by the kind of change. They are templates
	// over [ChangeContext].
	Changes map[string]Change `yaml:"changes,omitempty" json:"changes,omitempty" in:"change"`
	// Moments is a request whose answer lists the changes since the start of the control plane: `[{"receivedNs", "sentNs"}]`, in ns
	// since 1970. Absent means that the control plane does not count them.
	Moments *Request `yaml:"moments,omitempty" json:"moments,omitempty" in:"change"`
	// Background are requests to the control plane about services that no request calls. Absent means none.
	Background *Background `yaml:"background,omitempty" json:"background,omitempty" in:"background"`
	// Translates: the gateway rewrites requests, and random answers do not come through it. Requests that arrive at the
	// application prove the path.
	Translates bool `yaml:"translates,omitempty" json:"translates,omitempty"`
	// Verify has the counters of the sidecar. Absent means none.
	Verify Verify `yaml:"verify,omitempty" json:"verify"`
	// TCP: a mesh with l7 supports plain TCP services too, and counts their connections.
	TCP bool `yaml:"tcp,omitempty" json:"tcp,omitempty"`
	// Protocols that the sidecars forward. Absent means all, tcp only without l7 or with tcp: true.
	Protocols []string `yaml:"protocols,omitempty" json:"protocols,omitempty"`
}

// Sidecar is the proxy process of each pod.
type Sidecar struct {
	// Command is the program with its arguments, in place of `program` and `args`, relative to the file. With
	// ${listen} or ${upstream} one process runs for each listener.
	Command []string `yaml:"command,omitempty" json:"command,omitempty"`
	// Program is looked up by the platform: "envoy" means $TARE_ENVOY, PATH, then the pinned download.
	Program string `yaml:"program,omitempty" json:"program" required:"add program: envoy, or the path of another"`
	// Dir is the working directory of a Command.
	Dir string `yaml:"-" json:"-"`
	// Ready is how it shows that it serves: "tcp" (its ports are open), a path that is answered with 2xx or 3xx, or "admin"
	// (Envoy's admin interface). Absent means tcp with `command`, or else admin.
	Ready string `yaml:"ready,omitempty" json:"ready,omitempty"`
	// Reload is how it takes over a new configuration while it runs. Absent means that it cannot.
	Reload *Reload `yaml:"reload,omitempty" json:"reload,omitempty" in:"sidecar"`
	// Counters is where the counters of `verify` are read. Absent means Envoy's admin interface.
	Counters *CounterSource `yaml:"counters,omitempty" json:"counters,omitempty" in:"sidecar"`
	// VersionArgs are arguments with which the program prints its version and ends. Absent means that it is not recorded,
	// unless the platform knows it.
	VersionArgs []string `yaml:"versionArgs,omitempty" json:"versionArgs,omitempty"`
	// Path of the program, in place of the one that the platform finds, or its Version: of variants.
	Path    string `yaml:"-" json:"path,omitempty"`
	Version string `yaml:"-" json:"version,omitempty"`
	// Limits of each sidecar, by a control group: of variants.
	Limits cgroup.Limits `yaml:"-" json:"limits,omitzero"`
	// Options are read by the templates of Args and Config, as .Options.
	Options map[string]Option `yaml:"options,omitempty" json:"options,omitempty"`
	// Environment is added to the environment of the program.
	Environment map[string]string `yaml:"environment,omitempty" json:"environment,omitempty" keys:"variable"`
	// Args are its arguments, each a text/template over [SidecarContext].
	Args []string `yaml:"args,omitempty" json:"args" in:"sidecar" as:"template"`
	// Config is a text/template over [SidecarContext], written to provenance/ and given to the program.
	Config string `yaml:"config,omitempty" json:"config" in:"sidecar" as:"template"`
	// Files are further configurations, each a template, written to provenance/. Templates read the path as .Files.<name>.
	Files map[string]string `yaml:"files,omitempty" json:"files,omitempty" in:"sidecar" as:"template" keys:"label"`
	// Concurrency is the number of worker threads of the proxy. Absent means 1.
	Concurrency int `yaml:"concurrency,omitempty" json:"concurrency" range:"0,1024"`
	// ChoosePorts is for a sidecar that cannot be left to take ports from the
	// kernel: the platform chooses free ones before anything is rendered.
	ChoosePorts bool `yaml:"choosePorts,omitempty" json:"choosePorts,omitempty"`
	// Register are requests to the control plane, in order, before the first start of the sidecar.
	// They are templates over [SidecarContext].
	Register []Request `yaml:"register,omitempty" json:"register,omitempty" in:"sidecar"`
	// Bootstrap prints the configuration, instead of Config.
	Bootstrap *Bootstrap `yaml:"bootstrap,omitempty" json:"bootstrap,omitempty" in:"sidecar"`
	// InboundListener and OutboundListener are the listeners' names, templates as
	// in [Verify]. Absent means "inbound" and "outbound-<service>".
	InboundListener  string `yaml:"inboundListener,omitempty" json:"inboundListener,omitempty" in:"inbound" as:"template"`
	OutboundListener string `yaml:"outboundListener,omitempty" json:"outboundListener,omitempty" in:"outbound" as:"template"`
	// OutboundEndpoints is a gauge of the endpoints of one service in the sidecar.
	// Absent means that its configuration lists all.
	OutboundEndpoints string `yaml:"outboundEndpoints,omitempty" json:"outboundEndpoints,omitempty" in:"outbound" as:"template"`
}

// Reload is how a sidecar takes over a new configuration: by a signal, or by a request whose body is the configuration.
type Reload struct {
	// Signal is HUP, USR1 or USR2.
	Signal string `yaml:"signal,omitempty" json:"signal,omitempty"`
	// URL is a template.
	URL string `yaml:"url,omitempty" json:"url,omitempty" as:"template"`
	// Socket is the path of a UNIX socket for the request, a template. Empty means none.
	Socket string `yaml:"socket,omitempty" json:"socket,omitempty" as:"template"`
}

// Signals that reload a configuration, by name.
var Signals = map[string]syscall.Signal{"HUP": syscall.SIGHUP, "USR1": syscall.SIGUSR1, "USR2": syscall.SIGUSR2}

func (r Reload) mistakes(report func(field, message, hint string)) {
	if _, known := Signals[r.Signal]; (r.Signal == "") == (r.URL == "") || r.Signal != "" && !known {
		report("", fmt.Sprintf("found signal %q and url %q, expected one of signal and url, and signal: HUP, USR1 or USR2", r.Signal, r.URL), "write reload: {signal: HUP}")
	}
}

// CounterSource is where the counters of a sidecar are read.
type CounterSource struct {
	// Format is envoy, prometheus (name{label="value"} is the sum of the series with these labels), haproxy (CSV, proxy.server.field)
	// or nginx (stub_status: accepts, handled, requests).
	Format string `yaml:"format" json:"format"`
	// URL is a template. With Socket only its path is used.
	URL string `yaml:"url,omitempty" json:"url,omitempty" as:"template"`
	// Socket is the path of a UNIX socket, a template. HAProxy's needs no URL.
	Socket string `yaml:"socket,omitempty" json:"socket,omitempty" as:"template"`
}

// Formats of counters.
const (
	CountersEnvoy      = "envoy"
	CountersPrometheus = "prometheus"
	CountersHAProxy    = "haproxy"
	CountersNginx      = "nginx"
)

func CounterFormats() []string {
	return []string{CountersEnvoy, CountersPrometheus, CountersHAProxy, CountersNginx}
}

// SidecarContext is the data of a sidecar's templates. Addresses are split into
// IP and port, as in proxies' configurations.
type SidecarContext struct {
	Pod         string            // e.g. "echo-0"
	Service     string            // e.g. "echo"; "load" beside the load generator
	Identity    string            // SPIFFE ID of this pod's certificate
	IP          string            // the pod's own address
	Concurrency int               // worker threads, 0 for the definition's
	ConfigPath  string            // ends in .yaml, as Envoy requires
	Files       map[string]string `json:"-"` // paths of further files, by name
	AdminPath   string            // Unix socket of the admin interface, max 107 bytes
	Dir         string            `json:"-"` // directory of this process that any user may write to, removed with the trial
	Admin       string            `json:"-"` // address for an admin interface, IP:port, if the platform chooses ports
	CertPath    string            // PEM, this pod's certificate chain, empty without mTLS
	KeyPath     string            // PEM, 0600
	CAPath      string            // PEM of the run's CA
	// Inbound is the application of this sidecar, nil beside the load generator.
	Inbound *Inbound
	// Outbound has one entry per service this pod calls.
	Outbound []Outbound
	// Port of the inbound listener, if the platform chooses ports, or else 0. Also set beside the load generator.
	Port int `json:"-"`
	// Listen is the address of the only listener of a process, IP:port, and Upstream where it forwards to. The addresses
	// of several replicas have commas between. Empty: one process has all listeners of its pod.
	Listen, Upstream string `json:"-"`
	// Control are the processes of the control plane, by name.
	Control map[string]ControlContext `json:"-"`
	Secrets `json:"-"`
	// Changing: the experiment changes routes, and Version is the version of this configuration.
	Changing bool `json:"-"`
	Version  int  `json:"-"`
	// Options by name. Nil means the definition's defaults.
	Options map[string]string `json:"-"`
}

// Inbound is the path from other pods to the application.
type Inbound struct {
	AppIP   string
	AppPort int
	// Port to listen on. 0 means the kernel's choice. A restarted sidecar keeps its port.
	Port int
	// Callers are the SPIFFE IDs that may connect.
	Callers []string
	// CallerNames are their services, the common names of their certificates, for proxies that read no SPIFFE ID.
	CallerNames []string `json:"-"`
	// Protocol of the application: http1 (or empty), http2, grpc, tcp, websocket.
	Protocol string
}

// HTTP2 reports whether requests to the application use HTTP/2.
func (i Inbound) HTTP2() bool { return http2(i.Protocol) }

// WebSocket reports whether requests to the application ask for an upgrade of their connection.
func (i Inbound) WebSocket() bool { return i.Protocol == "websocket" }

// Outbound is the path from this pod to another service. The kernel chooses the
// sidecar's port, and the platform reads it from the admin interface.
type Outbound struct {
	Service   string
	Port      int    // to listen on, 0 for the kernel's choice. A sidecar that is restarted gets the one it had
	Identity  string // SPIFFE ID the callee must show
	Endpoints []Endpoint
	// Protocol of the callee: http1 (or empty), http2, grpc, tcp, websocket.
	Protocol string
}

// HTTP2 reports whether requests to the callee use HTTP/2.
func (o Outbound) HTTP2() bool { return http2(o.Protocol) }

func http2(protocol string) bool { return protocol == "http2" || protocol == "grpc" }

// WebSocket reports whether requests to the callee ask for an upgrade of their connection.
func (o Outbound) WebSocket() bool { return o.Protocol == "websocket" }

// Endpoint is the inbound listener of one replica, or before a gateway its application.
type Endpoint struct {
	IP   string
	Port int
}

// Units of the counters of [Verify].
const (
	UnitRequest    = "request"
	UnitConnection = "connection"
)

// Verify lists counters that verify traffic through the data plane. Their names
// are templates over [SidecarContext]. [Verify.Counters] executes outbound ones
// once per [Outbound], as `.Out`.
type Verify struct {
	// Unit of the counters below: "request" or "connection". Every probe is one request on a new connection.
	Unit     string `yaml:"unit" json:"unit"`
	Inbound  string `yaml:"inbound" json:"inbound" in:"inbound" as:"template"`    // counter that must grow by exactly the probes that reached this pod
	Outbound string `yaml:"outbound" json:"outbound" in:"outbound" as:"template"` // counter that must grow by exactly the probes sent
	// OutboundReceived counts in the same unit what the sidecar receives from its own pod for
	// another service, and InboundSent what it sends to its application. If they are
	// missing, a cached or retried request is attributed to the next point of the path.
	OutboundReceived string `yaml:"outboundReceived,omitempty" json:"outboundReceived,omitempty" in:"outbound" as:"template"`
	InboundSent      string `yaml:"inboundSent,omitempty" json:"inboundSent,omitempty" in:"inbound" as:"template"`
	// Retries and Timeouts are counters of requests to another service. Empty means none.
	Retries  string `yaml:"retries,omitempty" json:"retries,omitempty" in:"outbound" as:"template"`
	Timeouts string `yaml:"timeouts,omitempty" json:"timeouts,omitempty" in:"outbound" as:"template"`
	// Handshakes are TLS handshake counters, empty without mTLS. Other counters than Envoy's need none.
	InboundHandshakes  string `yaml:"inboundHandshakes,omitempty" json:"inboundHandshakes,omitempty" in:"inbound" as:"template"`
	OutboundHandshakes string `yaml:"outboundHandshakes,omitempty" json:"outboundHandshakes,omitempty" in:"outbound" as:"template"`
	// Denied counts authenticated callers that were refused. Empty means no counter.
	Denied string `yaml:"denied,omitempty" json:"denied,omitempty" in:"inbound" as:"template"`
	// Version is the field of the admin interface's /server_info with the sidecar's version. Empty means unknown.
	Version string `yaml:"version,omitempty" json:"version,omitempty"`
	// Workers is a gauge of the sidecar's worker threads. Empty means no gauge.
	Workers string `yaml:"workers,omitempty" json:"workers,omitempty"`
	// Statistics is a regular expression of the names that are read. Empty means all.
	Statistics string `yaml:"statistics,omitempty" json:"statistics,omitempty"`
	// Features verify that options act on the probes.
	Features []Feature `yaml:"features,omitempty" json:"features,omitempty"`
}

// Counts reports whether the sidecar has counters.
func (v Verify) Counts() bool { return v.Unit != "" || v.Inbound != "" || v.Outbound != "" }

// Feature verifies an option of the sidecar that is "true", or a number above 0.
type Feature struct {
	Option string `yaml:"option" json:"option" required:"name an option of the sidecar"`
	// Inbound is a counter of sidecars with an application, Outbound one of callers, as in [Verify]: at
	// least 1 after the probes.
	Inbound  string `yaml:"inbound,omitempty" json:"inbound,omitempty" in:"inbound" as:"template"`
	Outbound string `yaml:"outbound,omitempty" json:"outbound,omitempty" in:"outbound" as:"template"`
	// Dump are texts in the configuration dump of callers, of features that the probes do not meet.
	Dump []string `yaml:"dump,omitempty" json:"dump,omitempty"`
}

// Features are switched on by the chosen options.
func (l Local) Features() (all []Feature) {
	return lists.Where(l.Verify.Features, func(f Feature) bool { return l.enabled(f.Option) })
}

// Task is one process or container as attribution sees it.
type Task struct {
	ID        string            `json:"id"`                  // process or container, unique in the trial
	Namespace string            `json:"namespace,omitempty"` // its namespace
	Pod       string            `json:"pod"`                 // its pod, or locally a replica with its sidecar
	Service   string            `json:"service,omitempty"`   // its service
	Container string            `json:"container"`           // `app`, `sidecar`, `load`, `tare`, …
	Labels    map[string]string `json:"labels,omitempty"`    // its labels
	Plane     metric.Plane      `json:"plane"`               // `app`, `data`, `control`, `platform`, `foreign`, `unattributed`, `load`, `harness`
	Role      string            `json:"role,omitempty"`      // `sidecar`, `node-proxy`, `waypoint`, …
	Component string            `json:"component,omitempty"` // `load` for the load generator's own proxy
}

// Roles of tasks.
const (
	RoleSidecar   = "sidecar" // proxy in a pod of a service
	RoleWaypoint  = "waypoint"
	RoleGateway   = "gateway"
	RoleNodeProxy = "node-proxy" // proxy of all pods of a node
	RoleDaemon    = "daemon"     // of a node outside its pods: kubelet, container runtime
	RoleRemainder = "remainder"  // of a node outside its pods, the rest: work of the kernel, without memory
)

// Rule assigns matching tasks to a plane. Every set field must match: by
// equality, or by prefix if the value ends in "*".
type Rule struct {
	Plane     metric.Plane      `yaml:"plane" json:"plane"`
	Role      string            `yaml:"role,omitempty" json:"role,omitempty"`
	Component string            `yaml:"component,omitempty" json:"component,omitempty"`
	Namespace string            `yaml:"namespace,omitempty" json:"namespace,omitempty" form:"prefix"`
	Pod       string            `yaml:"pod,omitempty" json:"pod,omitempty" form:"prefix"`
	Service   string            `yaml:"service,omitempty" json:"service,omitempty" form:"prefix"`
	Container string            `yaml:"container,omitempty" json:"container,omitempty" form:"prefix"`
	PodLabel  map[string]string `yaml:"podLabel,omitempty" json:"podLabel,omitempty" form:"prefix"`
}

//go:embed definitions/*.yaml
var embedded embed.FS

// builtin is every embedded definition in the order of their names.
var builtin = sync.OnceValue(func() []Definition {
	all := decodeAll(embedded, "definitions", Decode)
	for _, d := range all {
		if d.Local != nil {
			d.Local.Sidecar.Dir = "" // there is no such directory
		}
	}
	slices.SortFunc(all, func(a, b Definition) int { return strings.Compare(a.Name, b.Name) })
	return all
})

// decodeAll decodes the embedded files of a directory. A file that does not load is a
// mistake of this build, and a test finds it first.
func decodeAll[T any](files embed.FS, dir string, decode func(name string, data []byte) (T, error)) []T {
	entries, err := files.ReadDir(dir)
	if err != nil {
		panic(err)
	}
	var all []T
	for _, e := range entries {
		file := path.Join(dir, e.Name())
		data, err := files.ReadFile(file)
		if err == nil {
			var one T
			if one, err = decode(file, data); err == nil {
				all = append(all, one)
				continue
			}
		}
		panic(fmt.Sprintf("embedded file: %v", err))
	}
	return all
}

// Load returns an embedded definition by name, or reads one
// from a file when nameOrPath contains a slash or ends in .yaml. The mistakes
// in a file are [strict.Problems].
func Load(nameOrPath string) (Definition, error) {
	if !IsPath(nameOrPath) {
		for _, d := range builtin() {
			if d.Name == nameOrPath {
				return d, nil
			}
		}
		return Definition{}, fmt.Errorf("unknown mesh %q: known are %s, or the path of a .yaml file",
			nameOrPath, strings.Join(Names(), ", "))
	}
	data, err := strict.ReadFile(nameOrPath)
	if err != nil {
		return Definition{}, fmt.Errorf("read mesh definition: %w", err)
	}
	return Decode(nameOrPath, data)
}

// Collect lists the embedded definitions and the definitions in files, by
// name. Every file is read before the mistakes of all are returned. A file that
// takes a name another has is a mistake as well.
func Collect(files ...string) ([]Definition, error) {
	all := Builtin()
	var mistakes []error
	for _, file := range files {
		data, err := strict.ReadFile(file)
		if err != nil {
			mistakes = append(mistakes, notAFile(file, err))
			continue
		}
		d, err := Decode(file, data)
		if err != nil {
			mistakes = append(mistakes, err)
			continue
		}
		if slices.ContainsFunc(all, func(o Definition) bool { return o.Name == d.Name }) {
			mistakes = append(mistakes, fmt.Errorf("%s: name: there is a mesh %q already", file, d.Name))
			continue
		}
		all = append(all, d)
	}
	slices.SortStableFunc(all, func(a, b Definition) int { return strings.Compare(a.Name, b.Name) })
	return all, errors.Join(mistakes...)
}

// Builtin lists the definitions that come with tare, by name.
func Builtin() []Definition {
	return append([]Definition(nil), builtin()...)
}

// notAFile is the error of a definition that cannot be read. Its path may be the name of an embedded one.
func notAFile(path string, err error) error {
	err = fmt.Errorf("read mesh definition: %w", err)
	if IsPath(path) || !slices.Contains(Names(), path) {
		return err
	}
	return hint.Wrap(err, fmt.Sprintf("--mesh adds the file of a definition; %s needs none: --set 'factors.mesh=[none, %s]'", path, path))
}

// Names lists the names of the definitions that come with tare, in order.
func Names() []string {
	return lists.Map(builtin(), func(d Definition) string { return d.Name })
}

// IsPath reports whether a mesh is the path of a file, not the name of an embedded
// definition.
func IsPath(nameOrPath string) bool {
	return strings.Contains(nameOrPath, "/") || strings.HasSuffix(nameOrPath, ".yaml")
}

// Decode reads one definition and validates it. The error is a
// [strict.Problems] with positions in the file name.
func Decode(name string, data []byte) (Definition, error) {
	var d Definition
	doc, err := strict.Parse(name, data)
	if err != nil {
		return d, err
	}
	doc.Decode(&d)
	v := &validation{doc: doc, text: data, d: &d}
	if d.Local != nil && len(d.Local.Sidecar.Command) > 0 {
		v.command(&d, filepath.Dir(name))
	}
	v.definition()
	if err := v.err(); err != nil {
		return Definition{}, err
	}
	if d.AtGateway() {
		if d, err = d.Gateway(""); err != nil {
			return Definition{}, err
		}
	}
	d.Text = data
	return d, nil
}

// validation collects the mistakes of one definition.
type validation struct {
	doc  *strict.Document
	text []byte
	d    *Definition
	// process is the control-plane process whose fields are checked, and control the processes before it.
	process ControlContext
	control map[string]ControlContext
	// inTemplates are problems at a line in a template. They have no path.
	inTemplates strict.Problems
}

// report adds a problem, unless the field has one already.
func (v *validation) report(path, message, hint string) {
	if v.doc.Sound(path) {
		v.doc.Report(path, message, hint)
	}
}

func (v *validation) err() error {
	err := v.doc.Err()
	if len(v.inTemplates) == 0 {
		return err
	}
	var all strict.Problems
	if err != nil && !errors.As(err, &all) {
		return err
	}
	all = append(slices.Clone(all), v.inTemplates...)
	slices.SortStableFunc(all, func(a, b strict.Problem) int { return a.Line - b.Line })
	return all
}
