// Package mesh holds mesh definitions: data files that say what a mesh
// provides, how its data plane is started beside a service, how to tell that it
// is truly in the path, and which plane each of its tasks belongs to.
//
// Definitions are YAML files in definitions/ (embedded); a user's own file goes
// through the same loader. Nothing in the code branches on a mesh's name.
package mesh

import "github.com/tare-mesh/tare/internal/metric"

// Definition is one mesh.
type Definition struct {
	Name        string   `yaml:"name" json:"name"`
	Description string   `yaml:"description" json:"description"`
	Provides    Provides `yaml:"provides,omitempty" json:"provides"`
	// Local says how the mesh runs as processes on one machine; nil: it does not.
	Local *Local `yaml:"local,omitempty" json:"local,omitempty"`
	// Kubernetes says how the mesh runs in a cluster; nil: it does not.
	Kubernetes *Kubernetes `yaml:"kubernetes,omitempty" json:"kubernetes,omitempty"`
	// Tasks are the attribution rules: the first that matches wins.
	Tasks []Rule `yaml:"tasks,omitempty" json:"tasks,omitempty"`
}

// Provides is what the mesh does for its users, so that a comparison of unequal things can say so.
type Provides struct {
	MTLS      bool `yaml:"mtls,omitempty" json:"mtls"`
	L7        bool `yaml:"l7,omitempty" json:"l7"` // understands requests, not only connections
	Retries   bool `yaml:"retries,omitempty" json:"retries"`
	Telemetry bool `yaml:"telemetry,omitempty" json:"telemetry"`
}

// Local is a data plane made of one sidecar process a pod, and the control plane it takes its orders from.
type Local struct {
	// Control are the processes of the control plane, in the order in which they start; none: the sidecars' configurations say all.
	Control []Control `yaml:"control,omitempty" json:"control,omitempty"`
	// Certificates are the control plane's; absent: tare issues one to each pod.
	Certificates *Certificates `yaml:"certificates,omitempty" json:"certificates,omitempty"`
	Sidecar      Sidecar       `yaml:"sidecar" json:"sidecar"`
	Verify       Verify        `yaml:"verify" json:"verify"`
	// TCP says that a mesh with l7 carries services that speak plain TCP too. It counts their connections.
	TCP bool `yaml:"tcp,omitempty" json:"tcp,omitempty"`
}

// Sidecar is the process that stands beside each pod.
type Sidecar struct {
	// Program is looked up by the platform: "envoy" means $TARE_ENVOY, PATH, then the pinned download.
	Program string `yaml:"program" json:"program"`
	// Args are its arguments, each a text/template over [SidecarContext].
	Args []string `yaml:"args" json:"args"`
	// Config is a text/template over [SidecarContext], written to provenance/ and given to the program.
	Config string `yaml:"config" json:"config"`
	// Concurrency is the number of worker threads of the proxy; absent: 1.
	Concurrency int `yaml:"concurrency,omitempty" json:"concurrency"`
	// ChoosePorts is for a sidecar that cannot be left to take ports from the
	// kernel: the platform chooses free ones before anything is rendered.
	ChoosePorts bool `yaml:"choosePorts,omitempty" json:"choosePorts,omitempty"`
	// Register are asked of the control plane, in order, before the sidecar first starts; templates over [SidecarContext].
	Register []Request `yaml:"register,omitempty" json:"register,omitempty"`
	// Bootstrap prints the configuration, in place of Config.
	Bootstrap *Bootstrap `yaml:"bootstrap,omitempty" json:"bootstrap,omitempty"`
	// InboundListener and OutboundListener are the listeners' names, templates as
	// those of [Verify]; absent: "inbound" and "outbound-<service>".
	InboundListener  string `yaml:"inboundListener,omitempty" json:"inboundListener,omitempty"`
	OutboundListener string `yaml:"outboundListener,omitempty" json:"outboundListener,omitempty"`
	// OutboundEndpoints is a gauge of the endpoints of one service that the sidecar knows; absent: it knows all from its start.
	OutboundEndpoints string `yaml:"outboundEndpoints,omitempty" json:"outboundEndpoints,omitempty"`
}

// SidecarContext is what the templates of a sidecar may use. Every address is
// "IP:port" split in two, because proxies want them apart.
type SidecarContext struct {
	Pod         string // e.g. "echo-0"
	Service     string // e.g. "echo"; "load" beside the load generator
	Identity    string // SPIFFE ID of this pod's certificate
	IP          string // the pod's own address
	Concurrency int    // worker threads; 0: the definition's
	ConfigPath  string // Envoy wants it to end in .yaml
	AdminPath   string // Unix socket of the admin interface; at most 107 bytes
	CertPath    string // PEM, this pod's certificate chain; empty without mTLS
	KeyPath     string // PEM, 0600
	CAPath      string // PEM of the run's CA
	// Inbound is the application this sidecar protects; nil beside the load generator.
	Inbound *Inbound
	// Outbound has one entry per service this pod calls.
	Outbound []Outbound
	// Port is that of the way in where ports are chosen, beside the load generator too; else 0.
	Port int `json:"-"`
	// Control are the processes of the control plane, by name.
	Control map[string]ControlContext `json:"-"`
	Secrets `json:"-"`
}

// Inbound is the way from other pods to the application.
type Inbound struct {
	AppIP   string
	AppPort int
	// Port to listen on; 0: the kernel's choice. A sidecar that is restarted gets the one it had.
	Port int
	// Callers are the SPIFFE IDs that may connect.
	Callers []string
	// Protocol the application speaks: http1 (empty as well), http2, grpc, tcp.
	Protocol string
}

// HTTP2 tells whether the application is spoken to in HTTP/2.
func (i Inbound) HTTP2() bool { return http2(i.Protocol) }

func http2(protocol string) bool { return protocol == "http2" || protocol == "grpc" }

// Outbound is the way from this pod to another service. The sidecar listens on
// a port taken from the kernel; the platform asks it which.
type Outbound struct {
	Service   string
	Port      int    // to listen on; 0: the kernel's choice. A sidecar that is restarted gets the one it had
	Identity  string // SPIFFE ID the callee must show
	Endpoints []Endpoint
	// Protocol the callee is spoken to in: http1 (empty as well), http2, grpc, tcp.
	Protocol string
}

// HTTP2 tells whether the callee is spoken to in HTTP/2.
func (o Outbound) HTTP2() bool { return http2(o.Protocol) }

// Endpoint is the inbound listener of one replica.
type Endpoint struct {
	IP   string
	Port int
}

// Verify says how to prove that the data plane is in the path. Counter names
// are templates over [SidecarContext] (outbound ones are executed once per
// [Outbound], which is then `.Out`); [Verify.Counters] executes them.
type Verify struct {
	// Unit of the counters below: "request" or "connection". Every probe is one request on a connection of its own.
	Unit     string `yaml:"unit" json:"unit"`
	Inbound  string `yaml:"inbound" json:"inbound"`   // counter that must move by exactly the probes that reached this pod
	Outbound string `yaml:"outbound" json:"outbound"` // counter that must move by exactly the probes sent
	// Retries and Timeouts are counters of the way to another service; empty: the data plane has none.
	Retries  string `yaml:"retries,omitempty" json:"retries,omitempty"`
	Timeouts string `yaml:"timeouts,omitempty" json:"timeouts,omitempty"`
	// Handshakes are TLS handshake counters; empty without mTLS.
	InboundHandshakes  string `yaml:"inboundHandshakes,omitempty" json:"inboundHandshakes,omitempty"`
	OutboundHandshakes string `yaml:"outboundHandshakes,omitempty" json:"outboundHandshakes,omitempty"`
	// Denied counts callers that were known and refused; empty: nothing counts them.
	Denied string `yaml:"denied,omitempty" json:"denied,omitempty"`
	// Version is the field of the admin interface's /server_info that says the sidecar's version; empty: it is not asked.
	Version string `yaml:"version,omitempty" json:"version,omitempty"`
}

// Task is one process or container as attribution sees it.
type Task struct {
	ID        string            `json:"id"` // unique within a trial, e.g. "echo-0/app"
	Namespace string            `json:"namespace,omitempty"`
	Pod       string            `json:"pod"`
	Service   string            `json:"service,omitempty"`
	Container string            `json:"container"` // "app", "sidecar", "load", "tare"
	Labels    map[string]string `json:"labels,omitempty"`
	Plane     metric.Plane      `json:"plane"`
	Role      string            `json:"role,omitempty"`      // sidecar, node-proxy, waypoint, …
	Component string            `json:"component,omitempty"` // "load" for the load generator's own proxy
}

// Roles of what a node burns beside its pods.
const (
	RoleDaemon    = "daemon"    // of the node: the kubelet, the container runtime
	RoleRemainder = "remainder" // what is left: the kernel's own work. It has no memory of its own
)

// Rule puts the tasks it matches into a plane. Every field that is set must
// match: equality, or a prefix where the value ends in "*".
type Rule struct {
	Plane     metric.Plane      `yaml:"plane" json:"plane"`
	Role      string            `yaml:"role,omitempty" json:"role,omitempty"`
	Component string            `yaml:"component,omitempty" json:"component,omitempty"`
	Namespace string            `yaml:"namespace,omitempty" json:"namespace,omitempty"`
	Pod       string            `yaml:"pod,omitempty" json:"pod,omitempty"`
	Service   string            `yaml:"service,omitempty" json:"service,omitempty"`
	Container string            `yaml:"container,omitempty" json:"container,omitempty"`
	PodLabel  map[string]string `yaml:"podLabel,omitempty" json:"podLabel,omitempty"`
}
