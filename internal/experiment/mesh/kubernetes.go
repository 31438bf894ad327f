package mesh

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/tare-mesh/tare/internal/base/hint"
	"github.com/tare-mesh/tare/internal/base/lists"
	"github.com/tare-mesh/tare/internal/metric"
)

// Kubernetes describes how the mesh is installed in a cluster, how an
// application is enrolled, and how both are verified and removed.
// Texts marked as templates are text/template over [InstallContext] or [EnrolContext].
type Kubernetes struct {
	// Version is the default version, in the form of the mesh's own releases.
	Version string `yaml:"version,omitempty" json:"version,omitempty"`
	// Namespace of the control plane. tare creates and deletes it.
	Namespace string `yaml:"namespace,omitempty" json:"namespace,omitempty" form:"label"`
	// NamespaceLabels are labels of Namespace.
	NamespaceLabels map[string]string `yaml:"namespaceLabels,omitempty" json:"namespaceLabels,omitempty"`
	// Coexists declares that the mesh acts on enrolled namespaces only: other meshes and applications without one may
	// run beside it.
	Coexists bool `yaml:"coexists,omitempty" json:"coexists,omitempty"`
	// Revisions describes several versions at once. If it is absent, only one can be installed.
	Revisions *Revisions `yaml:"revisions,omitempty" json:"revisions,omitempty"`
	// Revision of this definition. Empty means that it is the only version.
	Revision string `yaml:"-" json:"revision,omitempty"`
	// Hub is the default registry of the mesh's images. Empty means the registry of its charts.
	Hub string `yaml:"hub,omitempty" json:"hub,omitempty"`
	// Options of the mesh, by name.
	Options map[string]Option `yaml:"options,omitempty" json:"options,omitempty"`
	// Certificates makes tare create a trust anchor and an issuer for the mesh's own authority.
	Certificates bool `yaml:"certificates,omitempty" json:"certificates,omitempty"`
	// CRDs are installed before the first chart. CRDs that the cluster has already are never changed.
	CRDs []CRDs `yaml:"crds,omitempty" json:"crds,omitempty"`
	// Published are manifests of the mesh's project, for a mesh without a chart. They are applied before Manifests.
	Published *Published `yaml:"published,omitempty" json:"published,omitempty"`
	// Charts are installed in this order and uninstalled in reverse. Neither these nor Published: the mesh is part of the cluster.
	Charts []Chart `yaml:"charts,omitempty" json:"charts,omitempty"`
	// Manifests are further objects of the mesh: streams of YAML, templates over [InstallContext], applied once its
	// workloads and webhooks are ready, and removed with the mesh.
	Manifests []string `yaml:"manifests,omitempty" json:"manifests,omitempty" in:"install" as:"manifests"`
	// KernelWork is the reason why CPU of the mesh is in the remainder of the nodes, outside all containers.
	// It is empty if none is.
	KernelWork string `yaml:"kernelWork,omitempty" json:"kernelWork,omitempty"`
	// ProxyValues are the places of settings of the sidecars in the values of a chart: image, concurrency and others.
	ProxyValues ProxyValues `yaml:"proxyValues,omitempty" json:"proxyValues,omitzero"`
	// Profiles are sizes of the mesh, dev and ha. The default is dev, or ha if the mesh has no dev.
	Profiles map[string]Profile `yaml:"profiles,omitempty" json:"profiles,omitempty" in:"install"`
	// Workloads must run in Namespace before the mesh is ready.
	Workloads []Workload `yaml:"workloads,omitempty" json:"workloads,omitempty"`
	// Webhooks are configurations of admission webhooks that must have their CA before an application is deployed.
	Webhooks  []Webhook `yaml:"webhooks,omitempty" json:"webhooks,omitempty"`
	Enrolment Enrolment `yaml:"enrolment,omitempty" json:"enrolment"`
	// Proxies are the data plane, by role.
	Proxies []Proxy `yaml:"proxies,omitempty" json:"proxies,omitempty"`
	// ControlTimes are histograms in which the control plane counts how long its own stages take, a diagnosis of changes.
	ControlTimes []ControlTime `yaml:"controlTimes,omitempty" json:"controlTimes,omitempty"`
	// Gateway is the ingress gateway, for a load from outside the mesh. If it is absent, load.entry: gateway is refused.
	Gateway *Gateway `yaml:"gateway,omitempty" json:"gateway,omitempty"`
	// Changes are streams of YAML that change a route or a policy, by the kind of change. They are applied in the
	// application's namespace, and are templates over [ChangeContext].
	Changes map[string]string `yaml:"changes,omitempty" json:"changes,omitempty" in:"change" as:"manifests"`
	// Background is where simulated proxies connect, from a pod of the application's namespace: proxies, node and metadata. Absent
	// means that there are none.
	Background *Simulated `yaml:"background,omitempty" json:"background,omitempty" in:"enrol"`
	// Plaintext is the policy for requests without TLS from outside the mesh.
	Plaintext Plaintext `yaml:"plaintext,omitempty" json:"plaintext"`
	// Leftovers are objects that remain after the charts are uninstalled. tare deletes them and verifies it.
	Leftovers []Leftover `yaml:"leftovers,omitempty" json:"leftovers,omitempty"`
	// NodeFiles are files that the mesh's agent writes on nodes and removes. Removal is verified if possible.
	NodeFiles []NodeFiles `yaml:"nodeFiles,omitempty" json:"nodeFiles,omitempty"`
}

// Installable reports whether tare can install the mesh: otherwise it is part of the cluster.
func (k Kubernetes) Installable() bool {
	return len(k.Charts) > 0 || k.Published != nil
}

// Names of profiles, the default first.
const (
	ProfileDev = "dev" // one of everything, small requests: fits a laptop
	ProfileHA  = "ha"  // as the mesh recommends for production
)

// ProfileNames lists the names of profiles, the default first.
func ProfileNames() []string { return []string{ProfileDev, ProfileHA} }

type Option struct {
	Default string `yaml:"default,omitempty" json:"default"`
	Doc     string `yaml:"doc" json:"doc" required:"describe it"`
	// OneOf lists its values. Without a list, any value is allowed.
	OneOf []string `yaml:"oneOf,omitempty" json:"oneOf,omitempty"`
	// UpTo makes it a whole number from 0 to UpTo. 0 means a text.
	UpTo int `yaml:"upTo,omitempty" json:"upTo,omitempty"`
	// Provides is the feature of [Provides] that a mesh has exactly if the option is "true". Empty means none.
	Provides string `yaml:"provides,omitempty" json:"provides,omitempty"`
}

// on is the value of an option that switches a feature on.
const on = "true"

// CRDs are custom resource definitions that do not come with the mesh's charts.
type CRDs struct {
	Name    string `yaml:"name" json:"name" required:"add the name of its file in a directory of charts"` // also of a directory or a file in a directory of charts
	Version string `yaml:"version,omitempty" json:"version,omitempty"`
	// Kinds are names of CRDs, such as gateways.gateway.networking.k8s.io. A cluster that has all of them is not changed.
	Kinds []string `yaml:"kinds" json:"kinds" required:"add the names of the custom resource definitions, to find them in a cluster"`
	// Files are downloaded, unless a directory of charts has them.
	Files []File `yaml:"files,omitempty" json:"files,omitempty"`
}

// Published are manifests that a project publishes.
type Published struct {
	Name string `yaml:"name" json:"name" required:"add the name of its file in a directory of charts"` // also of a directory or a file in a directory of charts
	// Files are downloaded, unless a directory of charts has them.
	Files []File `yaml:"files,omitempty" json:"files,omitempty"`
}

type File struct {
	URL    string `yaml:"url" json:"url" form:"https"`
	SHA256 string `yaml:"sha256" json:"sha256" form:"sha256"`
}

// Chart is one Helm chart.
type Chart struct {
	Release   string `yaml:"release" json:"release" required:"add release: my-mesh" form:"label"`
	Namespace string `yaml:"namespace,omitempty" json:"namespace,omitempty"` // absent: the mesh's
	// Chart is its name in Repository, or oci://…. In a directory of charts its last path element is used.
	Chart string `yaml:"chart" json:"chart" required:"add the chart's name in the repository, or oci://…"`
	// Repository is its address. Absent, without oci://: the chart must be in a directory of charts.
	Repository string `yaml:"repository,omitempty" json:"repository,omitempty"`
	// Version of the chart, a template. Absent means the mesh's.
	Version string `yaml:"version,omitempty" json:"version,omitempty" in:"install" as:"template"`
	// Values is a template of YAML.
	Values string `yaml:"values,omitempty" json:"values,omitempty" in:"install" as:"values"`
}

// Profile is one size of the mesh.
type Profile struct {
	// Nodes is the number of nodes that it needs. 0 means any.
	Nodes int `yaml:"nodes,omitempty" json:"nodes" range:"0,10000"`
	// Replicas of the control plane's workloads and of waypoints.
	Replicas int `yaml:"replicas" json:"replicas" range:"1,1000"`
	// Values override the charts' values, by release. They are templates of YAML.
	Values map[string]string `yaml:"values,omitempty" json:"values,omitempty" as:"values"`
}

type Workload struct {
	Kind string `yaml:"kind" json:"kind" oneOf:"Deployment,StatefulSet,DaemonSet"` // Deployment, DaemonSet, StatefulSet
	Name string `yaml:"name" json:"name" required:"add its name" as:"template"`
	// Scaled workloads have the replicas of the profile.
	Scaled bool `yaml:"scaled,omitempty" json:"scaled,omitempty"`
}

// Webhook is the configuration of an admission webhook.
type Webhook struct {
	Kind string `yaml:"kind" json:"kind" oneOf:"MutatingWebhookConfiguration,ValidatingWebhookConfiguration"` // MutatingWebhookConfiguration, ValidatingWebhookConfiguration
	Name string `yaml:"name" json:"name" required:"add the name of the configuration" as:"template"`
}

// Marks are labels and annotations. Their values are templates.
type Marks struct {
	Labels      map[string]string `yaml:"labels,omitempty" json:"labels,omitempty" as:"template"`
	Annotations map[string]string `yaml:"annotations,omitempty" json:"annotations,omitempty" as:"template"`
}

// Enrolment adds an application's namespace to the mesh. Values and manifests are templates over [EnrolContext].
type Enrolment struct {
	Namespace Marks `yaml:"namespace,omitempty" json:"namespace" in:"enrol"`
	Pod       Marks `yaml:"pod,omitempty" json:"pod" in:"enrol"` // of each pod in the mesh
	// Exempt marks a pod outside the mesh in an enrolled namespace, such as a load from outside.
	Exempt Marks `yaml:"exempt,omitempty" json:"exempt" in:"enrol"`
	// Manifests are streams of YAML, applied in the application's namespace before any pod.
	Manifests []string `yaml:"manifests,omitempty" json:"manifests,omitempty" in:"enrol" as:"manifests"`
	// Workloads are created by the manifests, in the application's namespace. tare waits for them, and scales scaled ones to the profile's replicas.
	Workloads []Workload `yaml:"workloads,omitempty" json:"workloads,omitempty"`
	// Proof are marks that the mesh adds to an enrolled pod. Empty means none.
	Proof Marks `yaml:"proof,omitempty" json:"proof" in:"enrol"`
}

// Places of proxies.
const (
	InPod       = "pod"       // a container of each pod of the application
	InNamespace = "namespace" // pods of their own in the application's namespace
	InMesh      = "mesh"      // pods in the mesh's namespace: on each node, gateways
)

// Proxy is one part of the data plane.
type Proxy struct {
	Role      string `yaml:"role" json:"role" required:"add the role that the attribution rules give it, such as sidecar"` // as the attribution rules call it
	In        string `yaml:"in" json:"in" oneOf:"pod,namespace,mesh"`                                                      // pod, namespace or mesh
	Container string `yaml:"container" json:"container" required:"add the name of its container"`
	// PodLabel selects the pods where In is not pod. A prefix ends in "*".
	PodLabel map[string]string `yaml:"podLabel,omitempty" json:"podLabel,omitempty"`
	// OfServers: requests go through the proxy of the server's node only. Otherwise all requests of a node pass it, in either direction.
	OfServers bool `yaml:"ofServers,omitempty" json:"ofServers,omitempty"`
	// OpaqueOutside: requests from outside the mesh pass as TCP, so that no counter of requests has them.
	OpaqueOutside bool `yaml:"opaqueOutside,omitempty" json:"opaqueOutside,omitempty"`
	// Archive lists requests whose responses are kept, once the mesh is ready.
	Archive []Ask `yaml:"archive,omitempty" json:"archive,omitempty"`
	// Counters verify that traffic goes through it. Of the counters with the same Proves and Direction, one must grow in each pod.
	Counters []Counter `yaml:"counters,omitempty" json:"counters,omitempty"`
	// Services is a gauge of at least the number of services in a proxy's configuration. Absent: it is not checked that proxies know
	// background services.
	Services *Series `yaml:"services,omitempty" json:"services,omitempty"`
	// Updates are pages with the instants at which the proxy took over configurations, a diagnosis of changes.
	Updates []Updates `yaml:"updates,omitempty" json:"updates,omitempty"`
	// Connections are counters of a proxy that workloads share, for the conservation of requests.
	Connections []Counter `yaml:"connections,omitempty" json:"connections,omitempty"`
}

// Ask is a request to a port of a pod, over a port-forward.
type Ask struct {
	Name string `yaml:"name" json:"name" required:"add the name of the file it is kept in"` // of the file it is kept in
	Port int    `yaml:"port" json:"port" range:"1,65535"`
	Path string `yaml:"path" json:"path" form:"path"`
}

// What a counter can prove.
const (
	ProvesPath = "path" // traffic goes through the proxy
	ProvesL7   = "l7"   // the proxy understands requests
	ProvesMTLS = "mtls" // traffic is under mutual TLS
	// ProvesTelemetry: the proxy exports request metrics of the mesh. Without them the mesh is still verified, and the
	// figures are marked as without telemetry.
	ProvesTelemetry = "telemetry"
)

// Directions of the traffic in a counter.
const (
	WayIn  = "inbound"  // requests to the pod
	WayOut = "outbound" // requests of the pod to others
)

// Counter is a metric in Prometheus' text format.
type Counter struct {
	Proves string `yaml:"proves" json:"proves"`
	Port   int    `yaml:"port" json:"port" range:"1,65535"`
	Path   string `yaml:"path" json:"path" form:"path"`
	Metric string `yaml:"metric" json:"metric" required:"add its name as the proxy shows it"`
	// Labels the series must have, for equality or a prefix that ends in "*". The sum of all that have them is the counter.
	Labels map[string]string `yaml:"labels,omitempty" json:"labels,omitempty"`
	// Except excludes series that have all of these labels, such as requests to the proxy itself.
	Except map[string]string `yaml:"except,omitempty" json:"except,omitempty"`
	// Direction of the counted requests, by default inbound.
	// A pod without inbound requests is verified by its outbound ones.
	Direction string `yaml:"direction,omitempty" json:"direction,omitempty" oneOf:"inbound,outbound"`
	// Workload and Namespace are the labels with the name and the namespace of the workload, in connections.
	Workload  string `yaml:"workload,omitempty" json:"workload,omitempty"`
	Namespace string `yaml:"namespace,omitempty" json:"namespace,omitempty"`
}

// Of returns the counter of one workload.
func (c Counter) Of(namespace, workload string) Counter {
	c.Labels = maps.Clone(c.Labels)
	if c.Labels == nil {
		c.Labels = map[string]string{}
	}
	c.Labels[c.Namespace], c.Labels[c.Workload] = namespace, workload
	return c
}

// Way returns the direction of the counted requests.
func (c Counter) Way() string { return cmp.Or(c.Direction, WayIn) }

// Counts reports whether a series with these labels is part of the counter.
func (c Counter) Counts(labels map[string]string) bool {
	return has(labels, c.Labels) && (len(c.Except) == 0 || !has(labels, c.Except))
}

// Plaintext is the policy for requests without TLS from outside the mesh.
type Plaintext struct {
	// Refused is "true" or "false", a template over [EnrolContext].
	Refused string `yaml:"refused,omitempty" json:"refused,omitempty" in:"enrol" as:"template"`
	// NodeExempt: requests from the node are always accepted, for the kubelet's probes. Refusal can then be verified
	// only from another pod.
	NodeExempt bool `yaml:"nodeExempt,omitempty" json:"nodeExempt,omitempty"`
}

// Leftover matches objects by all of its fields. A name with "*" at its end is a prefix, at its beginning a suffix.
type Leftover struct {
	Kind  string `yaml:"kind" json:"kind" required:"add the kind of object, such as ConfigMap"`
	Group string `yaml:"group,omitempty" json:"group,omitempty"` // of the API, empty for the core's
	Name  string `yaml:"name,omitempty" json:"name,omitempty"`
	// Namespace it lies in. Empty means any, or none.
	Namespace string            `yaml:"namespace,omitempty" json:"namespace,omitempty"`
	Labels    map[string]string `yaml:"labels,omitempty" json:"labels,omitempty"`
}

// NodeFiles are files in one directory of every node.
type NodeFiles struct {
	Doc string `yaml:"doc" json:"doc" required:"describe the files"` // description
	// Dir is a template over [InstallContext].
	Dir string `yaml:"dir" json:"dir" required:"add a directory such as /etc/cni/net.d" in:"install" as:"template"`
	// Holding is a text that the files' names or contents have.
	Holding string `yaml:"holding" json:"holding" required:"add a text in the files' names, or in the files"`
}

// In is the directory on a cluster.
func (f NodeFiles) In(ctx InstallContext) (string, error) {
	b, err := execute("nodeFiles.dir", f.Dir, ctx)
	return strings.TrimSpace(string(b)), err
}

// Platforms by the names that experiment files have for them.
const (
	OnLocal      = "local"
	OnKubernetes = "kubernetes"
)

// On reports whether the mesh is available on a platform. The error wraps [errors.ErrUnsupported] and names the missing
// part of the definition. A mesh without a data plane, such as none, is available everywhere.
func (d Definition) On(platform string) error {
	parts := []struct {
		platform string
		has      bool
	}{{OnLocal, d.Local != nil}, {OnKubernetes, d.Kubernetes != nil}}
	nothing := d.Provides == Provides{} && d.Local == nil && d.Kubernetes == nil && !d.ruled(metric.Data)
	for _, p := range parts {
		if p.platform == platform && !p.has && !nothing {
			has := ""
			for _, other := range parts {
				if other.has {
					has = other.platform
				}
			}
			return notOn(d.Name, platform, has)
		}
	}
	return nil
}

func has(labels, want map[string]string) bool {
	for label, value := range want {
		if got, ok := labels[label]; !ok || !Match(value, got) {
			return false
		}
	}
	return true
}

// ruled reports whether the mesh has tasks in a plane.
func (d Definition) ruled(plane metric.Plane) bool {
	return slices.ContainsFunc(d.Tasks, func(r Rule) bool { return r.Plane == plane })
}

// notOn is the error about a mesh without a definition part for a platform. other is the platform with a part, or
// empty. The error wraps [errors.ErrUnsupported].
func notOn(mesh, platform, other string) error {
	advice := "docs/how-to/add-a-mesh.md describes how to write one"
	if other != "" {
		advice = "it runs on platform " + other + "; write platform: {kind: " + other + "}, or remove it"
	}
	return hint.New(advice, "mesh %s: %w on platform %s: its definition has no %s part", mesh, errors.ErrUnsupported, platform, platform)
}

// Gateway is a mesh's ingress gateway: its objects in an application's namespace, its Service, and how readiness and
// traffic are verified.
type Gateway struct {
	// None is the reason why the mesh has no gateway. The other fields are then empty.
	None string `yaml:"none,omitempty" json:"none,omitempty"`
	// CRDs that it needs in addition to the mesh's. They are installed with the mesh if the gateway is used.
	CRDs []CRDs `yaml:"crds,omitempty" json:"crds,omitempty"`
	// Protocols that its routes support.
	Protocols []string `yaml:"protocols,omitempty" json:"protocols,omitempty"`
	// Manifests are streams of YAML, templates over [EnrolContext], applied in the application's namespace after the manifests
	// of the enrolment. Their .Gateway is the backend.
	Manifests []string `yaml:"manifests,omitempty" json:"manifests,omitempty" in:"front" as:"manifests"`
	// Workloads are created by them. Scaled ones have the profile's replicas.
	Workloads []Workload `yaml:"workloads,omitempty" json:"workloads,omitempty"`
	// Conditions must hold before the load is sent.
	Conditions []Condition `yaml:"conditions,omitempty" json:"conditions,omitempty"`
	// Service of the gateway, in the application's namespace, at Port.
	Service string `yaml:"service,omitempty" json:"service,omitempty"`
	Port    int    `yaml:"port,omitempty" json:"port,omitempty"`
	// Proxy in its pods. Its request counters must grow by every answered request.
	Proxy *Proxy `yaml:"proxy,omitempty" json:"proxy,omitempty"`
}

// Condition is a condition that a controller reports in an object's status, or in the status of each of its parents, as the
// Gateway API has it for routes.
type Condition struct {
	Group   string `yaml:"group,omitempty" json:"group,omitempty"` // of the API, empty for the core's
	Version string `yaml:"version" json:"version" required:"add the version of the API, such as v1"`
	Kind    string `yaml:"kind" json:"kind" required:"add the kind of object, such as Gateway"`
	Name    string `yaml:"name" json:"name" required:"add its name"`
	Type    string `yaml:"type" json:"type" required:"add the type of condition, such as Programmed"` // Programmed, Accepted
}

// Front is the backend of a gateway, and the type of the gateway's own Service.
type Front struct {
	Service  string // of the application's entry
	Port     int    // of that Service
	Protocol string // that the entry speaks
	// ServiceType of the gateway's own Service: ClusterIP, NodePort or LoadBalancer.
	ServiceType string
}

// Way is the path of the load to the application. The zero value is from outside the mesh to the entry's Service.
type Way struct {
	// LoadInside: the load generator is in the mesh.
	LoadInside bool
	// Front is the mesh's ingress gateway, for a load outside the mesh. Nil means no gateway.
	Front *Front
	// Services of the application.
	Services []ServiceProtocol
}

// ServiceProtocol is a service and its protocol: http1, http2, grpc or tcp.
type ServiceProtocol struct{ Name, Protocol string }

// Ingress returns the mesh's ingress gateway on Kubernetes. It is nil for a mesh without a data plane. Any other mesh
// without a gateway is an error that wraps [errors.ErrUnsupported] and has the reason.
func (d Definition) Ingress() (*Gateway, error) {
	if d.Kubernetes == nil {
		return nil, d.On(OnKubernetes)
	}
	switch g := d.Kubernetes.Gateway; {
	case g == nil:
		return nil, noGateway(d.Name, "its definition has no gateway", "docs/how-to/add-a-mesh.md describes how to write one")
	case g.None != "":
		return nil, noGateway(d.Name, g.None, "remove the mesh, or send the load to the entry's Service: load: {entry: service}")
	default:
		return g, nil
	}
}

// OnlyGateway reports whether the mesh acts on nothing but a load through its ingress gateway.
func (d Definition) OnlyGateway() bool {
	k := d.Kubernetes
	return k != nil && len(k.Proxies) == 0 && k.Gateway != nil && k.Gateway.Proxy != nil
}

// Forwards returns an error if the sidecars on this machine do not forward a protocol.
func (d Definition) Forwards(protocol string) error {
	l := d.Local
	instead := "use a mesh that forwards " + protocol + ", such as envoy; `tare list meshes` prints the protocols of each"
	if protocol == "tcp" {
		instead = "use a mesh that forwards connections, such as envoy-tcp"
	}
	switch {
	case l == nil:
		return nil
	case len(l.Protocols) > 0 && !slices.Contains(l.Protocols, protocol):
		return hint.New(instead, "%s forwards only %s", d.Name, strings.Join(l.Protocols, ", "))
	case protocol == "tcp" && d.Provides.L7 && !l.TCP && len(l.Protocols) == 0:
		return hint.New(instead, "%s forwards only HTTP", d.Name)
	}
	return nil
}

// Carries returns an error if the gateway's routes do not support a protocol.
func (g Gateway) Carries(protocol string) error {
	if slices.Contains(g.Protocols, protocol) {
		return nil
	}
	return fmt.Errorf("%w: the gateway's routes support %s, not %s", errors.ErrUnsupported, strings.Join(g.Protocols, ", "), protocol)
}

// noGateway is the error about a mesh without an ingress gateway. It wraps [errors.ErrUnsupported].
func noGateway(mesh, why, advice string) error {
	return hint.New(advice, "mesh %s: %w through a gateway: %s", mesh, errors.ErrUnsupported, why)
}

// Holds reports whether an object meets the condition, and its state as text.
func (c Condition) Holds(object map[string]any) (ok bool, state string) {
	status, _ := object["status"].(map[string]any)
	places := []map[string]any{status}
	if parents, _ := status["parents"].([]any); len(parents) > 0 {
		places = nil
		for _, p := range parents {
			place, _ := p.(map[string]any)
			places = append(places, place)
		}
	}
	for _, place := range places {
		if ok, state := c.check(place); !ok {
			return false, state
		}
	}
	return true, c.Type
}

func (c Condition) check(place map[string]any) (ok bool, state string) {
	conditions, _ := place["conditions"].([]any)
	for _, one := range conditions {
		condition, _ := one.(map[string]any)
		if condition["type"] != c.Type {
			continue
		}
		if condition["status"] == "True" {
			return true, c.Type
		}
		state = fmt.Sprintf("%s is %v", c.Type, condition["status"])
		for _, more := range []string{"reason", "message"} {
			if text, _ := condition[more].(string); text != "" {
				state += ": " + text
			}
		}
		return false, state
	}
	return false, "condition " + c.Type + " is not reported"
}

func (k Kubernetes) sampleFronts() []any {
	return lists.Map([]string{"ClusterIP", "NodePort", "LoadBalancer"}, func(kind string) any {
		return k.sampleEnrol(Way{Front: &Front{Service: "echo", Port: 8080, Protocol: "http1", ServiceType: kind}})
	})
}

func (g Gateway) mistakes(report func(field, message, hint string)) {
	if g.None != "" {
		if len(g.Manifests) > 0 || g.Service != "" || g.Proxy != nil {
			report("none", "a reason why there is none, and a gateway", "remove one of the two")
		}
		return
	}
	if g.Service == "" {
		report("service", "missing", "add the name of the Service that leads to it, or none with the reason why there is no gateway")
	}
	if g.Port < 1 || g.Port > maxPort {
		report("port", fmt.Sprintf("found %d, expected 1 to %d", g.Port, maxPort), "")
	}
	if len(g.Protocols) == 0 {
		report("protocols", "missing: the routes support no protocol", "add protocols: [http1]")
	}
	if len(g.Manifests) == 0 {
		report("manifests", "missing: nothing would make it", "add the objects that do")
	}
	switch {
	case g.Proxy == nil:
		report("proxy", "missing: nothing would prove that requests come through it", "add its role, container, podLabel and counters")
	case g.Proxy.In != InNamespace:
		report("proxy.in", fmt.Sprintf("found %q, expected %s", g.Proxy.In, InNamespace), "a gateway belongs to the application's namespace, and is deleted with it")
	case !g.Proxy.proves(ProvesL7):
		report("proxy.counters", "no counter proves "+ProvesL7+": requests through the gateway cannot be verified", "add a counter of requests")
	}
}

// AtGateway reports whether the data plane on this machine is one process between the load and the entry.
func (d Definition) AtGateway() bool { return d.Local != nil && d.Local.Place == RoleGateway }

// Gateway returns the definition with its proxy as a gateway, on this machine alone. config replaces the template of its
// configuration: then its listener and counters are the user's, so that nothing is read from them. The error has a hint.
func (d Definition) Gateway(config string) (Definition, error) {
	switch {
	case d.Local == nil:
		return d, hint.New("meshes with a proxy on this machine: tare list meshes", "mesh %s has no proxy on this machine", cmp.Or(d.From, d.Name))
	case d.Provides.MTLS:
		return d, hint.New("write options: {mtls: false}, or another mesh: envoy-plaintext is Envoy without TLS", "mesh %s encrypts between two sidecars, and a gateway is one proxy", cmp.Or(d.From, d.Name))
	case slices.ContainsFunc(d.Local.Control, func(c Control) bool { return c.Option == "" }):
		return d, hint.New("name a mesh without a control plane, such as nginx", "the control plane of mesh %s configures sidecars", cmp.Or(d.From, d.Name))
	}
	local := *d.Local
	local.Place, local.Control, local.Background = RoleGateway, nil, nil
	if config != "" {
		text, err := commandTemplate(config)
		if err != nil {
			return d, err
		}
		local.Sidecar.Config, local.Sidecar.Counters, local.Sidecar.Ready, local.Sidecar.ChoosePorts = text, nil, ReadyTCP, true
		local.Verify, local.Changes, local.Sidecar.Reload = Verify{}, nil, nil
		if !local.Sidecar.PerListener() {
			return d, hint.New("write ${listen} where it listens, and ${upstream} where it forwards to, each also with .host and .port", "the configuration has no ${listen}")
		}
	}
	d.Tasks = []Rule{{Plane: metric.Data, Role: RoleGateway, Pod: RoleGateway}}
	d.Local, d.Kubernetes = &local, nil
	return d, nil
}
