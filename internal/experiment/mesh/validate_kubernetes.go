package mesh

import (
	"encoding/hex"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/tare-mesh/tare/internal/base/strict"
)

const maxPort = 65535

// kubernetes checks the part for clusters.
func (v *validation) kubernetes(k Kubernetes, d Definition) {
	const at = "kubernetes"
	if len(k.Charts) > 0 || k.CLI != nil {
		v.given(at+".version", k.Version, "add the version that is installed unless another is asked for")
		v.given(at+".namespace", k.Namespace, "add the namespace of the control plane")
	}
	if k.Namespace != "" && !label.MatchString(k.Namespace) {
		v.report(at+".namespace", fmt.Sprintf("found %q, expected lower-case letters, digits and -", k.Namespace), "")
	}
	for _, name := range slices.Sorted(maps.Keys(k.Options)) {
		o := k.Options[name]
		v.given(at+".options."+name+".doc", o.Doc, "say what it is for")
		if len(o.OneOf) > 0 && !slices.Contains(o.OneOf, o.Default) {
			v.report(at+".options."+name+".default", fmt.Sprintf("found %q, expected %s", o.Default, strings.Join(o.OneOf, ", ")), "")
		}
	}
	v.crdsAt(at+".crds", k.CRDs)
	v.charts(k)
	v.profiles(k)
	for i, w := range k.Workloads {
		v.workload(fmt.Sprintf("%s.workloads[%d]", at, i), w)
	}
	for i, w := range k.Webhooks {
		here := fmt.Sprintf("%s.webhooks[%d]", at, i)
		v.given(here+".name", w.Name, "add the name of the configuration")
		v.among(here+".kind", w.Kind, "MutatingWebhookConfiguration", "ValidatingWebhookConfiguration")
	}
	v.enrolment(k)
	v.proxies(k, d)
	v.gateway(k, d)
	v.nodeFiles(k)
	v.template(at+".plaintext.refused", k.Plaintext.Refused, k.sampleEnrols())
	for i, l := range k.Leftovers {
		here := fmt.Sprintf("%s.leftovers[%d]", at, i)
		v.given(here+".kind", l.Kind, "add the kind of object, such as ConfigMap")
		if l.Name == "" && l.Namespace == "" && len(l.Labels) == 0 {
			v.report(here, "matches every "+l.Kind, "name a name, a namespace or labels")
		}
		if name := strings.Trim(l.Name, "*"); strings.Contains(name, "*") || name == "" && l.Name != "" {
			v.report(here+".name", fmt.Sprintf("found %q: * may only stand at the beginning or the end", l.Name), "")
		}
	}
}

// among reports what is none of a few words.
func (v *validation) among(path, found string, words ...string) {
	if slices.Contains(words, found) {
		return
	}
	hint := ""
	if near, ok := strict.Nearest(found, words); ok {
		hint = "did you mean " + near + "?"
	}
	v.report(path, fmt.Sprintf("found %q, expected %s", found, strings.Join(words, ", ")), hint)
}

func (v *validation) crdsAt(at string, all []CRDs) {
	for i, c := range all {
		here := fmt.Sprintf("%s[%d]", at, i)
		v.given(here+".name", c.Name, "add a name, which a directory of charts may have it under")
		if len(c.Kinds) == 0 {
			v.report(here+".kinds", "missing: nothing would tell whether a cluster has them", "add the names of the custom resource definitions")
		}
		for j, f := range c.Files {
			file := fmt.Sprintf("%s.files[%d]", here, j)
			if u, err := url.Parse(f.URL); err != nil || u.Scheme != "https" || u.Host == "" {
				v.report(file+".url", fmt.Sprintf("found %q, expected an https address", f.URL), "")
			}
			if sum, err := hex.DecodeString(f.SHA256); err != nil || len(sum) != 32 {
				v.report(file+".sha256", fmt.Sprintf("found %q, expected 64 hexadecimal digits", f.SHA256), "`sha256sum` prints it")
			}
		}
	}
}

func (v *validation) charts(k Kubernetes) {
	seen := map[string]bool{}
	for i, c := range k.Charts {
		here := fmt.Sprintf("kubernetes.charts[%d]", i)
		switch {
		case c.Release == "":
			v.report(here+".release", "no release is named", "add release: my-mesh")
		case !label.MatchString(c.Release):
			v.report(here+".release", fmt.Sprintf("found %q, expected lower-case letters, digits and -", c.Release), "")
		case seen[c.Release]:
			v.report(here+".release", fmt.Sprintf("there are two called %q", c.Release), "")
		}
		seen[c.Release] = true
		v.given(here+".chart", c.Chart, "add the chart's name in the repository, or oci://…")
		switch oci := strings.HasPrefix(c.Chart, "oci://"); {
		case c.Chart != "" && c.Repository == "" && !oci:
			v.report(here+".repository", "missing: nothing says where the chart is", "add the address of a chart repository, or write chart: oci://…")
		case c.Repository != "" && oci:
			v.report(here+".repository", "the chart is in a registry", "remove one of the two")
		}
		v.template(here+".version", c.Version, k.sampleInstalls())
		v.values(here+".values", c.Values, k)
	}
	if c := k.CLI; c != nil {
		const here = "kubernetes.cli"
		v.given(here+".program", c.Program, "add the name of the program")
		if len(c.Version) == 0 {
			v.report(here+".version", "missing: nothing would tell which version is installed", "add the arguments that print it")
		}
		if len(c.Render) == 0 {
			v.report(here+".render", "missing: the program would install nothing", "add the arguments that print manifests")
		}
		for i, args := range c.Render {
			for j, arg := range args {
				v.template(fmt.Sprintf("%s.render[%d][%d]", here, i, j), arg, k.sampleInstalls())
			}
		}
		v.values(here+".values", c.Values, k)
	}
}

// values checks that a template of YAML holds and renders to a mapping.
func (v *validation) values(path, text string, k Kubernetes) {
	v.template(path, text, k.sampleInstalls())
	if !v.doc.Sound(path) {
		return
	}
	for _, sample := range k.sampleInstalls() {
		b, err := execute("t", text, sample)
		if err != nil {
			return // said by the template's own check
		}
		var values map[string]any
		if err := yaml.Unmarshal(b, &values); err != nil {
			v.report(path, "what it renders to is no mapping of YAML: "+strings.TrimPrefix(err.Error(), "yaml: "), "")
			return
		}
	}
}

func (v *validation) profiles(k Kubernetes) {
	if len(k.Charts) > 0 && len(k.Profiles) == 0 {
		v.report("kubernetes.profiles", "missing: nothing says how large the mesh is", "add profiles: {dev: {replicas: 1}}")
	}
	for _, name := range slices.Sorted(maps.Keys(k.Profiles)) {
		p, here := k.Profiles[name], "kubernetes.profiles."+name
		v.among(here, name, ProfileNames()...)
		if p.Replicas < 1 {
			v.report(here+".replicas", fmt.Sprintf("found %d, expected 1 or more", p.Replicas), "")
		}
		if p.Nodes < 0 {
			v.report(here+".nodes", fmt.Sprintf("found %d, expected 0 or more", p.Nodes), "")
		}
		for _, release := range slices.Sorted(maps.Keys(p.Values)) {
			path := here + ".values." + release
			if !slices.ContainsFunc(k.Charts, func(c Chart) bool { return c.Release == release }) {
				v.report(path, fmt.Sprintf("there is no release %q", release), "")
			}
			v.values(path, p.Values[release], k)
		}
	}
}

func (v *validation) workload(here string, w Workload) {
	v.given(here+".name", w.Name, "add its name")
	v.among(here+".kind", w.Kind, "Deployment", "StatefulSet", "DaemonSet")
	if w.Scaled && w.Kind == "DaemonSet" {
		v.report(here+".scaled", "a DaemonSet has as many pods as there are nodes", "remove it")
	}
}

func (v *validation) enrolment(k Kubernetes) {
	const at = "kubernetes.enrolment"
	samples := k.sampleEnrols()
	for _, m := range []struct {
		name  string
		marks Marks
	}{{"namespace", k.Enrolment.Namespace}, {"pod", k.Enrolment.Pod}, {"exempt", k.Enrolment.Exempt}, {"proof", k.Enrolment.Proof}} {
		for _, of := range []struct {
			name string
			all  map[string]string
		}{{"labels", m.marks.Labels}, {"annotations", m.marks.Annotations}} {
			for _, key := range slices.Sorted(maps.Keys(of.all)) {
				v.template(at+"."+m.name+"."+of.name+"."+key, of.all[key], samples)
			}
		}
	}
	for i, text := range k.Enrolment.Manifests {
		v.manifest(fmt.Sprintf("%s.manifests[%d]", at, i), text, samples)
	}
	for i, w := range k.Enrolment.Workloads {
		v.workload(fmt.Sprintf("%s.workloads[%d]", at, i), w)
	}
}

// manifest checks that a template renders to objects of Kubernetes.
func (v *validation) manifest(path, text string, samples []any) {
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
				v.report(path, "what it renders to is no YAML: "+strings.TrimPrefix(err.Error(), "yaml: "), "")
				return
			}
			if o.APIVersion == "" || o.Kind == "" || o.Metadata.Name == "" {
				v.report(path, "what it renders to is no object of Kubernetes", "it needs apiVersion, kind and metadata.name")
				return
			}
		}
	}
}

func (v *validation) proxies(k Kubernetes, d Definition) {
	proves := map[string]bool{}
	for i, p := range k.Proxies {
		maps.Copy(proves, v.proxy(fmt.Sprintf("kubernetes.proxies[%d]", i), p, d))
	}
	for _, p := range []struct {
		proves string
		needed bool
	}{{ProvesMTLS, d.Provides.MTLS}, {ProvesL7, d.Provides.L7}} {
		if p.needed && !proves[p.proves] {
			v.report("kubernetes.proxies", "no counter proves "+p.proves+", which the mesh provides", "add one, or take it out of provides")
		}
	}
}

// proxy checks one part of the data plane, and says what its counters prove.
func (v *validation) proxy(here string, p Proxy, d Definition) (proves map[string]bool) {
	proves = map[string]bool{}
	v.given(here+".role", p.Role, "add the role that the attribution rules give it, such as sidecar")
	v.given(here+".container", p.Container, "add the name of its container")
	v.among(here+".in", p.In, InPod, InNamespace, InMesh)
	if p.In != InPod && len(p.PodLabel) == 0 {
		v.report(here+".podLabel", "missing: nothing says which pods", "add labels of the pods")
	}
	if p.Role != "" && !slices.ContainsFunc(d.Tasks, func(r Rule) bool { return r.Role == p.Role }) {
		v.report(here+".role", fmt.Sprintf("no rule of tasks attributes %q", p.Role), "")
	}
	for j, a := range p.Archive {
		ask := fmt.Sprintf("%s.archive[%d]", here, j)
		v.given(ask+".name", a.Name, "add the name of the file it is kept in")
		v.ask(ask, a.Port, a.Path)
	}
	for j, c := range p.Counters {
		counter := fmt.Sprintf("%s.counters[%d]", here, j)
		v.among(counter+".proves", c.Proves, ProvesPath, ProvesL7, ProvesMTLS, ProvesTelemetry)
		v.among(counter+".direction", c.Way(), WayIn, WayOut)
		v.given(counter+".metric", c.Metric, "add its name as the proxy shows it")
		v.ask(counter, c.Port, c.Path)
		proves[c.Proves] = true
	}
	return proves
}

func (v *validation) nodeFiles(k Kubernetes) {
	for i, f := range k.NodeFiles {
		here := fmt.Sprintf("kubernetes.nodeFiles[%d]", i)
		v.given(here+".doc", f.Doc, "say what it is")
		v.given(here+".holding", f.Holding, "add a text in the files' names, or in the files")
		v.given(here+".dir", f.Dir, "add a directory such as /etc/cni/net.d")
		v.template(here+".dir", f.Dir, k.sampleInstalls())
	}
}

func (v *validation) ask(here string, port int, path string) {
	if port < 1 || port > maxPort {
		v.report(here+".port", fmt.Sprintf("found %d, expected 1 to %d", port, maxPort), "")
	}
	if !strings.HasPrefix(path, "/") {
		v.report(here+".path", fmt.Sprintf("found %q, expected a path such as /metrics", path), "")
	}
}

func (k Kubernetes) sampleOptions() map[string]string {
	options := map[string]string{}
	for name, o := range k.Options {
		options[name] = o.Default
	}
	return options
}

// sampleInstalls are one of every profile, or one.
func (k Kubernetes) sampleInstalls() []any {
	var all []any
	for _, name := range ProfileNames() {
		if p, ok := k.Profiles[name]; ok || len(all) == 0 {
			all = append(all, InstallContext{Version: k.Version, Profile: name, Replicas: max(p.Replicas, 1), Namespace: k.Namespace, Hub: k.Hub,
				ClusterNetworks: []string{"10.42.0.0/16", "10.43.0.0/16"}, ServiceCIDR: "10.43.0.0/16", Options: k.sampleOptions(), ValuesFile: "/run/values.yaml"})
		}
	}
	return all
}

func (k Kubernetes) sampleEnrols() []any {
	var all []any
	for _, inside := range []bool{true, false} {
		all = append(all, k.sampleEnrol(Way{LoadInside: inside}))
	}
	return append(all, k.sampleFronts()...)
}

func (k Kubernetes) sampleEnrol(way Way) EnrolContext {
	return k.enrolContext(Settings{Version: k.Version, Profile: ProfileDev, Hub: k.Hub, Options: k.sampleOptions()}, "shop", way)
}
