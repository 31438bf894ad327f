package mesh

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
)

// trafficPart checks enrolment, proxies and gateway: what puts an application's requests through the mesh in a
// cluster, and what proves it.
type trafficPart struct {
	*validation
	k Kubernetes
	d Definition
}

func (v trafficPart) validate() {
	for i, text := range v.k.Manifests {
		v.manifest(fmt.Sprintf("kubernetes.manifests[%d]", i), text, v.k.sampleInstalls())
	}
	v.enrolment(v.k)
	v.proxies(v.k, v.d)
	v.gateway(v.k, v.d)
	v.template("kubernetes.plaintext.refused", v.k.Plaintext.Refused, v.k.sampleEnrols())
}

func (v trafficPart) enrolment(k Kubernetes) {
	const at = "kubernetes.enrolment"
	samples := k.sampleEnrols()
	for _, m := range []struct {
		name  string
		marks Marks
	}{{"namespace", k.Enrolment.Namespace}, {"pod", k.Enrolment.Pod}, {"exempt", k.Enrolment.Exempt}, {"proof", k.Enrolment.Proof}} {
		v.marks(at+"."+m.name, m.marks, samples)
	}
	for i, text := range k.Enrolment.Manifests {
		v.manifest(fmt.Sprintf("%s.manifests[%d]", at, i), text, samples)
	}
	for i, w := range k.Enrolment.Workloads {
		v.workload(fmt.Sprintf("%s.workloads[%d]", at, i), w)
	}
}

// marks checks the templates of labels and annotations.
func (v *validation) marks(at string, m Marks, samples []any) {
	for _, of := range []struct {
		name string
		all  map[string]string
	}{{"labels", m.Labels}, {"annotations", m.Annotations}} {
		for _, key := range slices.Sorted(maps.Keys(of.all)) {
			v.template(at+"."+of.name+"."+key, of.all[key], samples)
		}
	}
}

func (v trafficPart) proxies(k Kubernetes, d Definition) {
	proves := map[string]bool{}
	for i, p := range k.Proxies {
		maps.Copy(proves, v.proxy(fmt.Sprintf("kubernetes.proxies[%d]", i), p, d))
	}
	for _, p := range []struct {
		proves string
		needed bool
	}{{ProvesMTLS, d.Provides.MTLS}, {ProvesL7, d.Provides.L7}} {
		if p.needed && !proves[p.proves] {
			v.report("kubernetes.proxies", "no counter proves "+p.proves+", which the mesh provides", "add one, or remove it from provides")
		}
	}
}

// gateway checks the ingress gateway.
func (v trafficPart) gateway(k Kubernetes, d Definition) {
	g := k.Gateway
	const at = "kubernetes.gateway"
	if g == nil {
		return
	}
	if g.None != "" {
		if v.doc.Has(at+".manifests") || v.doc.Has(at+".service") || v.doc.Has(at+".proxy") {
			v.report(at+".none", "a reason why there is none, and a gateway", "remove one of the two")
		}
		return
	}
	v.crds(at+".crds", g.CRDs)
	v.required(at+".service", g.Service, "add the name of the Service that leads to it, or none with the reason why there is no gateway")
	if g.Port < 1 || g.Port > maxPort {
		v.report(at+".port", fmt.Sprintf("found %d, expected 1 to %d", g.Port, maxPort), "")
	}
	if len(g.Protocols) == 0 {
		v.report(at+".protocols", "missing: the routes support no protocol", "add protocols: [http1]")
	}
	if len(g.Manifests) == 0 {
		v.report(at+".manifests", "missing: nothing would make it", "add the objects that do")
	}
	samples := k.sampleFronts()
	for i, text := range g.Manifests {
		v.manifest(fmt.Sprintf("%s.manifests[%d]", at, i), text, samples)
	}
	for i, w := range g.Workloads {
		v.workload(fmt.Sprintf("%s.workloads[%d]", at, i), w)
	}
	for i, c := range g.Conditions {
		here := fmt.Sprintf("%s.conditions[%d]", at, i)
		v.required(here+".version", c.Version, "add the version of the API, such as v1")
		v.required(here+".kind", c.Kind, "add the kind of object, such as Gateway")
		v.required(here+".name", c.Name, "add its name")
		v.required(here+".type", c.Type, "add the type of condition, such as Programmed")
	}
	v.gatewayProxy(at+".proxy", g.Proxy, d)
}

// manifest checks that a template renders to objects of Kubernetes.
func (v trafficPart) manifest(path, text string, samples []any) {
	v.template(path, text, samples)
	for _, sample := range samples {
		b, err := execute("t", text, sample)
		if err != nil {
			return
		}
		for document := range strings.SplitSeq("\n"+string(b), "\n---") {
			var o struct {
				APIVersion string `yaml:"apiVersion"`
				Kind       string `yaml:"kind"`
				Metadata   struct {
					Name string `yaml:"name"`
				} `yaml:"metadata"`
			}
			if strings.TrimSpace(document) == "" {
				continue
			}
			if err := yaml.Unmarshal([]byte(document), &o); err != nil {
				v.report(path, "its rendered text is not YAML: "+strings.TrimPrefix(err.Error(), "yaml: "), "")
				return
			}
			if o.APIVersion == "" || o.Kind == "" || o.Metadata.Name == "" {
				v.report(path, "its rendered text is not a Kubernetes object", "it needs apiVersion, kind and metadata.name")
				return
			}
		}
	}
}

// gatewayProxy checks that the gateway's proxy can be found, and that a counter proves its traffic.
func (v trafficPart) gatewayProxy(at string, p *Proxy, d Definition) {
	if p == nil {
		v.report(at, "missing: nothing would prove that requests come through it", "add its role, container, podLabel and counters")
		return
	}
	proves := v.proxy(at, *p, d)
	if p.In != InNamespace {
		v.report(at+".in", fmt.Sprintf("found %q, expected %s", p.In, InNamespace), "a gateway belongs to the application's namespace, and is deleted with it")
	}
	if !proves[ProvesL7] {
		v.report(at+".counters", "no counter proves "+ProvesL7+": requests through the gateway cannot be verified", "add a counter of requests")
	}
}

// proxy checks one part of the data plane, and returns what its counters prove.
func (v trafficPart) proxy(here string, p Proxy, d Definition) (proves map[string]bool) {
	proves = map[string]bool{}
	v.required(here+".role", p.Role, "add the role that the attribution rules give it, such as sidecar")
	v.required(here+".container", p.Container, "add the name of its container")
	v.oneOf(here+".in", p.In, InPod, InNamespace, InMesh)
	if p.In != InPod && len(p.PodLabel) == 0 {
		v.report(here+".podLabel", "missing: needed to find its pods", "add labels of the pods")
	}
	if p.Role != "" && !slices.ContainsFunc(d.Tasks, func(r Rule) bool { return r.Role == p.Role }) {
		v.report(here+".role", fmt.Sprintf("no rule of tasks attributes %q", p.Role), "")
	}
	for j, a := range p.Archive {
		ask := fmt.Sprintf("%s.archive[%d]", here, j)
		v.required(ask+".name", a.Name, "add the name of the file it is kept in")
		v.endpoint(ask, a.Port, a.Path)
	}
	for j, c := range p.Counters {
		counter := fmt.Sprintf("%s.counters[%d]", here, j)
		v.oneOf(counter+".proves", c.Proves, ProvesPath, ProvesL7, ProvesMTLS, ProvesTelemetry)
		v.counter(counter, c)
		proves[c.Proves] = true
	}
	for j, c := range p.Connections {
		counter := fmt.Sprintf("%s.connections[%d]", here, j)
		v.counter(counter, c)
		v.required(counter+".workload", c.Workload, "add the label with the name of the workload")
		v.required(counter+".namespace", c.Namespace, "add the label with the namespace of the workload")
		if p.In != InMesh {
			v.report(counter, "applies only to proxies that several workloads share", "use counters")
		}
	}
	return proves
}

func (v trafficPart) counter(here string, c Counter) {
	v.oneOf(here+".direction", c.Way(), WayIn, WayOut)
	v.required(here+".metric", c.Metric, "add its name as the proxy shows it")
	v.endpoint(here, c.Port, c.Path)
}

func (v trafficPart) endpoint(here string, port int, path string) {
	if port < 1 || port > maxPort {
		v.report(here+".port", fmt.Sprintf("found %d, expected 1 to %d", port, maxPort), "")
	}
	if !strings.HasPrefix(path, "/") {
		v.report(here+".path", fmt.Sprintf("found %q, expected a path such as /metrics", path), "")
	}
}
