package mesh

import (
	"cmp"
	"errors"
	"strings"

	"github.com/tare-mesh/tare/internal/base/hint"
	"github.com/tare-mesh/tare/internal/metric"
)

// Kubernetes says how the mesh comes into a cluster, how an application is put
// under it, how to tell that it is in force, and what must be gone in the end.
// Texts marked as templates are text/template over [InstallContext] or [EnrolContext].
type Kubernetes struct {
	// Version is the one installed unless another is asked for, as the mesh itself writes it.
	Version string `yaml:"version,omitempty" json:"version,omitempty"`
	// Namespace is the control plane's. It is made, and removed in the end.
	Namespace string `yaml:"namespace,omitempty" json:"namespace,omitempty"`
	// NamespaceLabels are those of Namespace.
	NamespaceLabels map[string]string `yaml:"namespaceLabels,omitempty" json:"namespaceLabels,omitempty"`
	// Hub is where the mesh's images come from unless another is asked for; empty: where its charts say.
	Hub string `yaml:"hub,omitempty" json:"hub,omitempty"`
	// Options are what may be asked for besides, by name.
	Options map[string]Option `yaml:"options,omitempty" json:"options,omitempty"`
	// Certificates says that tare makes a trust anchor and an issuer for the mesh's own authority.
	Certificates bool `yaml:"certificates,omitempty" json:"certificates,omitempty"`
	// CRDs must be there before the first chart. Those of a cluster that has them are left alone, then and in the end.
	CRDs []CRDs `yaml:"crds,omitempty" json:"crds,omitempty"`
	// Charts are installed in this order and uninstalled in the other. None: the mesh is part of the cluster.
	Charts []Chart `yaml:"charts,omitempty" json:"charts,omitempty"`
	// CLI is the mesh's own installer; absent: it has none.
	CLI *CLI `yaml:"cli,omitempty" json:"cli,omitempty"`
	// Profiles are sizes of the mesh; the first of [ProfileNames] that is there is the default.
	Profiles map[string]Profile `yaml:"profiles,omitempty" json:"profiles,omitempty"`
	// Workloads are what must run in Namespace before the mesh is ready.
	Workloads []Workload `yaml:"workloads,omitempty" json:"workloads,omitempty"`
	// Webhooks are configurations of admission webhooks that must have their CA before an application is deployed.
	Webhooks  []Webhook `yaml:"webhooks,omitempty" json:"webhooks,omitempty"`
	Enrolment Enrolment `yaml:"enrolment,omitempty" json:"enrolment"`
	// Proxies are the data plane, by role.
	Proxies []Proxy `yaml:"proxies,omitempty" json:"proxies,omitempty"`
	// Gateway is the way in for a load from outside of the mesh; nil: nothing is known of one.
	Gateway *Gateway `yaml:"gateway,omitempty" json:"gateway,omitempty"`
	// Plaintext is what becomes of a request without TLS from outside of the mesh.
	Plaintext Plaintext `yaml:"plaintext,omitempty" json:"plaintext"`
	// Leftovers are what the charts' own removal leaves. They are removed, and it is checked that they are gone.
	Leftovers []Leftover `yaml:"leftovers,omitempty" json:"leftovers,omitempty"`
	// NodeFiles are what the mesh's agent puts on nodes, and takes back. It is looked for in the end where that can be.
	NodeFiles []NodeFiles `yaml:"nodeFiles,omitempty" json:"nodeFiles,omitempty"`
}

// Names of profiles, the default first.
const (
	ProfileDev = "dev" // one of everything, small requests: fits a laptop
	ProfileHA  = "ha"  // as the mesh recommends for production
)

// ProfileNames are those a definition may have, the default first.
func ProfileNames() []string { return []string{ProfileDev, ProfileHA} }

// Option is something a definition lets the user choose.
type Option struct {
	Default string `yaml:"default,omitempty" json:"default"`
	Doc     string `yaml:"doc" json:"doc"`
	// OneOf are the values it may have; none: any.
	OneOf []string `yaml:"oneOf,omitempty" json:"oneOf,omitempty"`
}

// CRDs are custom resource definitions that do not come with the mesh's charts.
type CRDs struct {
	Name    string `yaml:"name" json:"name"` // and that of a directory or a file in a directory of charts
	Version string `yaml:"version,omitempty" json:"version,omitempty"`
	// Kinds are names of CRDs, such as gateways.gateway.networking.k8s.io. Where a cluster has all of them nothing is done.
	Kinds []string `yaml:"kinds" json:"kinds"`
	// Files are fetched where no directory of charts has them.
	Files []File `yaml:"files,omitempty" json:"files,omitempty"`
}

// File is something to be fetched.
type File struct {
	URL    string `yaml:"url" json:"url"`
	SHA256 string `yaml:"sha256" json:"sha256"`
}

// Chart is one Helm chart.
type Chart struct {
	Release   string `yaml:"release" json:"release"`
	Namespace string `yaml:"namespace,omitempty" json:"namespace,omitempty"` // absent: the mesh's
	// Chart is its name in Repository, or oci://…. In a directory of charts it is found by the last part of it.
	Chart      string `yaml:"chart" json:"chart"`
	Repository string `yaml:"repository,omitempty" json:"repository,omitempty"`
	// Version of the chart, a template; absent: the mesh's.
	Version string `yaml:"version,omitempty" json:"version,omitempty"`
	// Values are a template of YAML.
	Values string `yaml:"values,omitempty" json:"values,omitempty"`
}

// CLI is a program that prints manifests.
type CLI struct {
	Program string `yaml:"program" json:"program"` // on PATH
	// Version prints the program's version, which is then the mesh's.
	Version []string `yaml:"version" json:"version"`
	// Render are the arguments of commands whose output is applied, one after another; templates. The user's own come after those of the last.
	Render [][]string `yaml:"render" json:"render"`
	// Values is a template of YAML whose file the arguments have as {{.ValuesFile}}; empty: none.
	Values string `yaml:"values,omitempty" json:"values,omitempty"`
}

// Profile is one size of the mesh.
type Profile struct {
	// Nodes are how many the cluster must have for it; 0: any.
	Nodes int `yaml:"nodes,omitempty" json:"nodes"`
	// Replicas of the control plane's workloads and of waypoints.
	Replicas int `yaml:"replicas" json:"replicas"`
	// Values go over those of the charts, by release; templates of YAML.
	Values map[string]string `yaml:"values,omitempty" json:"values,omitempty"`
}

// Workload is something of the mesh's that runs.
type Workload struct {
	Kind string `yaml:"kind" json:"kind"` // Deployment, DaemonSet, StatefulSet
	Name string `yaml:"name" json:"name"`
	// Scaled says that it must have the replicas of the profile.
	Scaled bool `yaml:"scaled,omitempty" json:"scaled,omitempty"`
}

// Webhook is the configuration of an admission webhook.
type Webhook struct {
	Kind string `yaml:"kind" json:"kind"` // MutatingWebhookConfiguration, ValidatingWebhookConfiguration
	Name string `yaml:"name" json:"name"`
}

// Marks are labels and annotations; their values are templates.
type Marks struct {
	Labels      map[string]string `yaml:"labels,omitempty" json:"labels,omitempty"`
	Annotations map[string]string `yaml:"annotations,omitempty" json:"annotations,omitempty"`
}

// Enrolment puts an application's namespace under the mesh. Values and manifests are templates over [EnrolContext].
type Enrolment struct {
	Namespace Marks `yaml:"namespace,omitempty" json:"namespace"`
	Pod       Marks `yaml:"pod,omitempty" json:"pod"` // of each pod in the mesh
	// Exempt are the marks of a pod that stays out though its namespace is in: a load from outside.
	Exempt Marks `yaml:"exempt,omitempty" json:"exempt"`
	// Manifests are streams of YAML, put into the application's namespace before any pod is.
	Manifests []string `yaml:"manifests,omitempty" json:"manifests,omitempty"`
	// Workloads come of the manifests, in the application's namespace: they are waited for, and scaled ones brought to the profile's replicas.
	Workloads []Workload `yaml:"workloads,omitempty" json:"workloads,omitempty"`
	// Proof is what the mesh itself puts on a pod that is in it; empty: nothing.
	Proof Marks `yaml:"proof,omitempty" json:"proof"`
}

// Places where proxies stand.
const (
	InPod       = "pod"       // a container of each pod of the application
	InNamespace = "namespace" // pods of their own in the application's namespace
	InMesh      = "mesh"      // pods in the mesh's namespace: on each node, gateways
)

// Proxy is one part of the data plane.
type Proxy struct {
	Role      string `yaml:"role" json:"role"` // as the attribution rules call it
	In        string `yaml:"in" json:"in"`     // pod, namespace or mesh
	Container string `yaml:"container" json:"container"`
	// PodLabel selects the pods where In is not pod; a prefix ends in "*".
	PodLabel map[string]string `yaml:"podLabel,omitempty" json:"podLabel,omitempty"`
	// Archive is asked for once the mesh stands, and kept.
	Archive []Ask `yaml:"archive,omitempty" json:"archive,omitempty"`
	// Counters prove that it is in the path. Of those that prove the same of one direction, one must move in each pod.
	Counters []Counter `yaml:"counters,omitempty" json:"counters,omitempty"`
}

// Ask is a request to a port of a pod, over a port-forward.
type Ask struct {
	Name string `yaml:"name" json:"name"` // of the file it is kept in
	Port int    `yaml:"port" json:"port"`
	Path string `yaml:"path" json:"path"`
}

// What a counter can prove.
const (
	ProvesPath = "path" // traffic goes through the proxy
	ProvesL7   = "l7"   // the proxy understands requests
	ProvesMTLS = "mtls" // traffic is under mutual TLS
	// ProvesTelemetry says that the proxy tells of requests in the mesh's own words. Where nothing does, the mesh is in
	// force all the same, and the figures say that they are without it.
	ProvesTelemetry = "telemetry"
)

// Directions of what a counter counts.
const (
	WayIn  = "inbound"  // what comes to the pod
	WayOut = "outbound" // what the pod asks others for
)

// Counter is a metric in Prometheus' text format.
type Counter struct {
	Proves string `yaml:"proves" json:"proves"`
	Port   int    `yaml:"port" json:"port"`
	Path   string `yaml:"path" json:"path"`
	Metric string `yaml:"metric" json:"metric"`
	// Labels the series must have, for equality or a prefix that ends in "*"; the sum of all that have them is the counter.
	Labels map[string]string `yaml:"labels,omitempty" json:"labels,omitempty"`
	// Except leaves out the series that have all of these: what the proxy itself is asked for, say.
	Except map[string]string `yaml:"except,omitempty" json:"except,omitempty"`
	// Direction of what is counted, inbound where it is absent. A pod that nobody asks is judged by what it asks others for.
	Direction string `yaml:"direction,omitempty" json:"direction,omitempty"`
}

// Way is the direction of what is counted.
func (c Counter) Way() string { return cmp.Or(c.Direction, WayIn) }

// Counts says whether a series with these labels is part of the counter.
func (c Counter) Counts(labels map[string]string) bool {
	return has(labels, c.Labels) && (len(c.Except) == 0 || !has(labels, c.Except))
}

func has(labels, want map[string]string) bool {
	return Rule{PodLabel: want}.matches(Task{Labels: labels})
}

// Plaintext says what becomes of requests without TLS from outside of the mesh.
type Plaintext struct {
	// Refused is "true" or "false", a template over [EnrolContext].
	Refused string `yaml:"refused,omitempty" json:"refused,omitempty"`
	// NodeExempt says that what comes from the node itself is let in whatever it is, for the sake of kubelet's probes:
	// that it is refused can be tried from another pod only.
	NodeExempt bool `yaml:"nodeExempt,omitempty" json:"nodeExempt,omitempty"`
}

// Leftover matches objects; what is given must hold. Names end in "*" for a prefix, begin with "*" for a suffix.
type Leftover struct {
	Kind  string `yaml:"kind" json:"kind"`
	Group string `yaml:"group,omitempty" json:"group,omitempty"` // of the API; empty: the core's
	Name  string `yaml:"name,omitempty" json:"name,omitempty"`
	// Namespace it lies in; empty: any, or none.
	Namespace string            `yaml:"namespace,omitempty" json:"namespace,omitempty"`
	Labels    map[string]string `yaml:"labels,omitempty" json:"labels,omitempty"`
}

// NodeFiles are files in one directory of every node.
type NodeFiles struct {
	Doc string `yaml:"doc" json:"doc"` // what they are, in words
	// Dir is a template over [InstallContext].
	Dir string `yaml:"dir" json:"dir"`
	// Holding is a text in the files' names, or in the files.
	Holding string `yaml:"holding" json:"holding"`
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

// On says whether the mesh can be had on a platform. The error wraps [errors.ErrUnsupported] and says what the
// definition lacks. A mesh that is nothing can be had anywhere.
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

// ruled says whether the mesh has tasks in a plane.
func (d Definition) ruled(plane metric.Plane) bool {
	for _, r := range d.Tasks {
		if r.Plane == plane {
			return true
		}
	}
	return false
}

// notOn is the error about a mesh whose definition has no part for a platform. other is the platform it has a part
// for, or empty. The error wraps [errors.ErrUnsupported].
func notOn(mesh, platform, other string) error {
	advice := "docs/how-to/add-a-mesh.md describes how to write one"
	if other != "" {
		advice = "it runs on platform " + other + "; write platform: {kind: " + other + "}, or remove it"
	}
	return hint.New(advice, "mesh %s: %w on platform %s: its definition has no %s part", mesh, errors.ErrUnsupported, platform, platform)
}
