package mesh

import (
	"cmp"
	"errors"
	"maps"
	"slices"
	"strings"

	"github.com/tare-mesh/tare/internal/base/hint"
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

// Option is an option of a mesh.
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

// File is a file to download.
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

// Workload is a workload of the mesh.
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
	return Rule{PodLabel: want}.matches(Task{Labels: labels})
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
