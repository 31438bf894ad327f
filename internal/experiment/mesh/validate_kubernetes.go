package mesh

import (
	"encoding/hex"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
)

const maxPort = 65535

// clusterPart checks the part of a definition for clusters.
type clusterPart struct{ *validation }

func (v clusterPart) validate(k Kubernetes, d Definition) {
	const at = "kubernetes"
	if len(k.Charts) > 0 || k.CLI != nil {
		v.required(at+".version", k.Version, "add the version that is installed by default")
		v.required(at+".namespace", k.Namespace, "add the namespace of the control plane")
	}
	if k.Namespace != "" && !label.MatchString(k.Namespace) {
		v.report(at+".namespace", fmt.Sprintf("found %q, expected lower-case letters, digits and -", k.Namespace), "")
	}
	v.options(at+".options", k.Options)
	v.crds(at+".crds", k.CRDs)
	v.charts(k)
	v.profiles(k)
	v.proxyValues(k)
	for i, w := range k.Workloads {
		v.workload(fmt.Sprintf("%s.workloads[%d]", at, i), w)
	}
	for i, w := range k.Webhooks {
		v.webhook(fmt.Sprintf("%s.webhooks[%d]", at, i), w)
	}
	v.revisions(k)
	trafficPart{v.validation, k, d}.validate()
	v.nodeFiles(k)
	for i, l := range k.Leftovers {
		here := fmt.Sprintf("%s.leftovers[%d]", at, i)
		v.required(here+".kind", l.Kind, "add the kind of object, such as ConfigMap")
		if l.Name == "" && l.Namespace == "" && len(l.Labels) == 0 {
			v.report(here, "matches every "+l.Kind, "name a name, a namespace or labels")
		}
		if name := strings.Trim(l.Name, "*"); strings.Contains(name, "*") || name == "" && l.Name != "" {
			v.report(here+".name", fmt.Sprintf("found %q: * may only stand at the beginning or the end", l.Name), "")
		}
	}
}

func (v *validation) webhook(here string, w Webhook) {
	v.required(here+".name", w.Name, "add the name of the configuration")
	v.oneOf(here+".kind", w.Kind, "MutatingWebhookConfiguration", "ValidatingWebhookConfiguration")
}

func (v *validation) crds(at string, all []CRDs) {
	for i, c := range all {
		here := fmt.Sprintf("%s[%d]", at, i)
		v.required(here+".name", c.Name, "add the name of its file in a directory of charts")
		if len(c.Kinds) == 0 {
			v.report(here+".kinds", "missing: needed to find them in a cluster", "add the names of the custom resource definitions")
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

func (v clusterPart) charts(k Kubernetes) {
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
		v.required(here+".chart", c.Chart, "add the chart's name in the repository, or oci://…")
		switch oci := strings.HasPrefix(c.Chart, "oci://"); {
		case c.Chart != "" && c.Repository == "" && !oci:
			v.report(here+".repository", "missing: the chart has no repository", "add the address of a chart repository, or write chart: oci://…")
		case c.Repository != "" && oci:
			v.report(here+".repository", "the chart is in a registry", "remove one of the two")
		}
		v.template(here+".version", c.Version, k.sampleInstalls())
		v.values(here+".values", c.Values, k)
	}
	if c := k.CLI; c != nil {
		const here = "kubernetes.cli"
		v.required(here+".program", c.Program, "add the name of the program")
		if len(c.Version) == 0 {
			v.report(here+".version", "missing: needed to determine the installed version", "add the arguments that print it")
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

func (v clusterPart) profiles(k Kubernetes) {
	if len(k.Charts) > 0 && len(k.Profiles) == 0 {
		v.report("kubernetes.profiles", "missing: the mesh has no size", "add profiles: {dev: {replicas: 1}}")
	}
	for _, name := range slices.Sorted(maps.Keys(k.Profiles)) {
		p, here := k.Profiles[name], "kubernetes.profiles."+name
		v.oneOf(here, name, ProfileNames()...)
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

// values checks that a template of YAML holds and renders to a mapping.
func (v clusterPart) values(path, text string, k Kubernetes) {
	v.template(path, text, k.sampleInstalls())
	if !v.doc.Sound(path) {
		return
	}
	for _, sample := range k.sampleInstalls() {
		b, err := execute("t", text, sample)
		if err != nil {
			return // already reported
		}
		var values map[string]any
		if err := yaml.Unmarshal(b, &values); err != nil {
			v.report(path, "not a YAML mapping after rendering: "+strings.TrimPrefix(err.Error(), "yaml: "), "")
			return
		}
	}
}

// options checks the declared options of either part.
func (v *validation) options(at string, options map[string]Option) {
	for _, name := range slices.Sorted(maps.Keys(options)) {
		o := options[name]
		v.required(at+"."+name+".doc", o.Doc, "describe it")
		if len(o.OneOf) > 0 && !slices.Contains(o.OneOf, o.Default) {
			v.report(at+"."+name+".default", fmt.Sprintf("found %q, expected %s", o.Default, strings.Join(o.OneOf, ", ")), "")
		}
		if o.UpTo != 0 && (o.UpTo < 0 || o.UpTo > maxCount || !upTo(o.Default, o.UpTo)) {
			v.report(at+"."+name+".upTo", fmt.Sprintf("found %d with default %q, expected a maximum to %d and a whole number", o.UpTo, o.Default, maxCount), "")
		}
		if o.Provides != "" && (new(Provides).feature(o.Provides) == nil || !slices.Contains(o.OneOf, on)) {
			v.report(at+"."+name+".provides", fmt.Sprintf("found %q, expected mtls, l7, retries or telemetry, of an option with oneOf: [\"false\", \"true\"]", o.Provides), "")
		}
	}
}

func (v clusterPart) nodeFiles(k Kubernetes) {
	for i, f := range k.NodeFiles {
		here := fmt.Sprintf("kubernetes.nodeFiles[%d]", i)
		v.required(here+".doc", f.Doc, "describe the files")
		v.required(here+".holding", f.Holding, "add a text in the files' names, or in the files")
		v.required(here+".dir", f.Dir, "add a directory such as /etc/cni/net.d")
		v.template(here+".dir", f.Dir, k.sampleInstalls())
	}
}

const sampleRevision = "istio-1-30"

// sampleInstalls are one of every profile, or one.
func (k Kubernetes) sampleInstalls() []any {
	var all []any
	for _, name := range ProfileNames() {
		if p, ok := k.Profiles[name]; ok || len(all) == 0 {
			all = append(all, InstallContext{Version: k.Version, Profile: name, Replicas: max(p.Replicas, 1), Namespace: k.Namespace, Revision: sampleRevision, Hub: k.Hub,
				ClusterNetworks: []string{"10.42.0.0/16", "10.43.0.0/16"}, ServiceCIDR: "10.43.0.0/16", ClusterDomain: "cluster.local", Options: defaults(k.Options), ValuesFile: "/run/values.yaml"})
		}
	}
	return all
}

func (k Kubernetes) sampleEnrols() []any {
	var all []any
	for _, inside := range []bool{true, false} {
		all = append(all, k.sampleEnrol(Way{LoadInside: inside, Services: []ServiceProtocol{{"web", "grpc"}}}))
	}
	return append(all, k.sampleFronts()...)
}

func (k Kubernetes) sampleEnrol(way Way) EnrolContext {
	ctx := k.enrolContext(Settings{Version: k.Version, Profile: ProfileDev, Hub: k.Hub, Options: defaults(k.Options)}, "shop", way)
	ctx.Revision = sampleRevision
	return ctx
}
