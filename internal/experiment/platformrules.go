package experiment

import (
	"cmp"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/tare-mesh/tare/internal/base/proc"
	"github.com/tare-mesh/tare/internal/base/strict"
	"github.com/tare-mesh/tare/internal/experiment/mesh"
)

type platformRules struct{ validation }

func (v platformRules) validate() {
	v.kind()
	v.meter()
	v.access()
	v.images()
	v.digests()
}

// workloads checks namespace and resources. They depend on the application.
func (v platformRules) workloads() {
	v.namespace()
	v.resources()
}

// Bounds of the time until the workloads of a trial are ready.
const (
	defaultReadyWithin = Duration(5 * time.Minute)
	minReadyWithin     = Duration(time.Second)
)

// ReadyDeadline is how long the workloads of a trial may take to be ready.
func (p Platform) ReadyDeadline() time.Duration {
	return time.Duration(cmp.Or(p.ReadyWithin, defaultReadyWithin))
}

func (v platformRules) kind() {
	p := v.e.Platform
	if v.local() {
		v.onClusters("platform.context", "platform.kubeconfig", "platform.image", "platform.affinity", "platform.inUse",
			"platform.namespace", "platform.resources", "platform.digests", "platform.readyWithin")
	}
	if p.Kind == "kubernetes" && len(p.CPUs) > 0 {
		v.report("platform.cpus", "remove it, or --set platform.cpus={}", "the cluster schedules CPUs itself")
	}
	for _, plane := range sortedKeys(p.CPUs) {
		path := "platform.cpus." + plane
		if !slices.Contains(planesToPin, plane) {
			v.report(path, strict.DidYouMean(plane, planesToPin), "there is no such plane")
		} else if _, err := proc.ParseCPUs(p.CPUs[plane]); err != nil {
			v.report(path, `use the syntax of taskset: "0-3,6"`, "%v", err)
		}
	}
}

// meter checks the source of container figures in a cluster.
func (v platformRules) meter() {
	p := v.e.Platform
	if v.local() {
		v.onClusters("platform.meter")
		return
	}
	if p.Meter == NodeAgent && p.Namespace != "" {
		v.report("platform.meter", "remove it, or platform.namespace", "node agents run in a namespace of their own, and %s is an existing one", clip(p.Namespace))
	}
}

// access checks where the load runs and how it enters the cluster.
func (v platformRules) access() {
	if v.local() {
		v.onClusters("load.from", "platform.expose")
		return
	}
	if v.e.Platform.Expose != "" && !v.e.Outside() {
		v.report("platform.expose", "add load: {from: outside}, or remove it", "the load runs inside the cluster")
	}
}

func (v platformRules) images() {
	for _, name := range sortedKeys(v.e.Platform.Images) {
		path, i := "platform.images."+name, v.e.Platform.Images[name]
		switch {
		case v.local():
			v.onClusters(path)
		case v.e.Outside():
			v.report(path, "remove it", "the load runs outside the cluster, with the programs of this machine")
		case !slices.Contains(v.names.Generators, name):
			v.report(path, strict.DidYouMean(name, v.names.Generators), "there is no load generator of this name")
		case i.Image == "" || strings.ContainsAny(i.Image, " \t\n"):
			v.report(path, "write it as REGISTRY/NAME:TAG, or "+ProgramsImage+" if it is in the image of tare-agent", "not an image reference")
		case i.Path != "" && !strings.HasPrefix(i.Path, "/"):
			v.report(path+".path", "", "%q is not an absolute path", clip(i.Path))
		}
	}
}

// digests checks the pinned digests of images. The path of an entry cannot be reported: references contain dots.
func (v platformRules) digests() {
	for _, image := range sortedKeys(v.e.Platform.Digests) {
		if digest := v.e.Platform.Digests[image]; !digestPattern.MatchString(digest) {
			v.report("platform.digests", "write it as sha256:… with 64 hexadecimal digits, as in a trial's provenance/images.yaml",
				"%q is not a digest (of image %s)", clip(digest), clip(image))
		}
	}
}

// namespace checks an existing namespace, and that the trial fits into it.
func (v platformRules) namespace() {
	name := v.e.Platform.Namespace
	switch {
	case name == "":
		return
	case v.e.foreign():
		v.report("platform.namespace", "remove it: each trial then creates a namespace of its own", "a run that is killed leaves the application's objects in an existing namespace")
	}
	each(v.validation, "factors.mesh", v.e.meshes(), func(path, mesh string) {
		if d, ok := v.definition(mesh); ok && d.Kubernetes != nil {
			v.report(path, "remove platform.namespace: a mesh needs RBAC permissions in the whole cluster", "a mesh labels its namespaces, and %s is an existing one", clip(name))
		}
	})
}

// planesWithResources are the planes whose containers tare creates. A mesh's containers have the mesh's own settings.
var planesWithResources = []string{"app", "load"}

const (
	maxCores  = Cores(maxCPU)
	minMemory = Size(4 << 20) // no program of tare starts with less
	maxMemory = Size(1 << 50)
)

func (v platformRules) resources() {
	for _, plane := range sortedKeys(v.e.Platform.Resources) {
		path, r := "platform.resources."+plane, v.e.Platform.Resources[plane]
		if !slices.Contains(planesWithResources, plane) {
			v.report(path, strict.DidYouMean(plane, planesWithResources), "there is no such plane: set the resources of a mesh's containers in meshes")
			continue
		}
		if plane == "app" && v.e.foreign() {
			v.report(path, "write them into application.chart.values, or into the manifests", "the application's objects set the resources of its containers")
		}
		if plane == "load" && v.e.Outside() {
			v.report(path, "remove it", "the load runs outside the cluster")
		}
		v.amounts(path, r)
	}
}

// Where the load generator runs.
const (
	LoadInside  = "inside"
	LoadOutside = "outside"
)

// Meters with conditions.
const (
	NodeAgent = "node-agent" // needs permissions in the whole cluster
	Kubelet   = "kubelet"
)

const digestForm = `^sha256:[0-9a-f]{64}$`

var (
	loadFrom = []string{LoadInside, LoadOutside}
	// exposures are the kinds of access to a cluster for a load from outside, the default first.
	exposures = []string{"nodePort", "loadBalancer"}
	// affinities are the ways to place pods, the default first.
	affinities = []string{"auto", "labels", "none"}
	// inUse are the policies for a cluster in use, the default first.
	inUse = []string{"refuse", "allow"}
	// planesToPin are the planes whose CPUs can be chosen.
	planesToPin = []string{"app", "data", "load", "control", "harness"}

	digestPattern = regexp.MustCompile(digestForm)
)

// Outside reports whether this machine sends the load into a cluster.
func (e *Experiment) Outside() bool { return e.Load.From == LoadOutside }

// amounts checks that requests do not exceed limits.
func (v validation) amounts(path string, r Resources) {
	if r.Limits.CPU != 0 && r.Requests.CPU > r.Limits.CPU {
		v.report(path+".requests.cpu", "", "%v is more than the limit, %v", float64(r.Requests.CPU), float64(r.Limits.CPU))
	}
	if r.Limits.Memory != 0 && r.Requests.Memory > r.Limits.Memory {
		v.report(path+".requests.memory", "", "%v is more than the limit, %v", r.Requests.Memory, r.Limits.Memory)
	}
}

func (e *Experiment) onCluster() bool { return e.Platform.Kind == mesh.OnKubernetes }
