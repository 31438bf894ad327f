package mesh

import (
	"cmp"
	"fmt"
	"maps"
	"reflect"
	"regexp"
	"slices"
	"strings"

	"github.com/tare-mesh/tare/internal/base/hint"
	"github.com/tare-mesh/tare/internal/base/strict"
	"github.com/tare-mesh/tare/internal/metric"
)

const (
	// maxConcurrency is larger than the number of CPUs of any known machine.
	maxConcurrency = 1024
	maxPort        = 65535
)

// definition checks the fields by their tags, and then the rules between parts.
func (v *validation) definition() {
	v.control = map[string]ControlContext{}
	v.rules("", reflect.ValueOf(*v.d), "")
	if v.d.Local != nil {
		v.local(*v.d.Local)
	}
	if v.d.Kubernetes != nil {
		v.cluster(*v.d.Kubernetes)
	}
}

// begin makes the data of the templates of a control-plane process.
func (v *validation) begin(at string, c Control) {
	if _, twice := v.control[c.Name]; twice {
		v.report(at+".name", fmt.Sprintf("there are two called %q", c.Name), "")
	}
	v.process = sampleControlContext(c, v.d.Local.Sidecar.Chosen(), maps.Clone(v.control))
}

// samples are data of the templates of a kind.
func (v *validation) samples(data string) []any {
	switch data {
	case "control":
		return []any{v.process}
	case "certificate":
		return []any{CertificateContext{Service: "echo", Control: v.control, Secrets: sampleSecrets}}
	case "change":
		return []any{ChangeContext{Service: "echo", Version: 1, Endpoints: sampleOutbound("echo")[0].Endpoints, Pod: "echo-0", CertPath: "/run/echo-0.crt", KeyPath: "/run/echo-0.key", Control: v.control, Secrets: sampleSecrets}}
	case "background":
		return []any{BackgroundContext{Services: 2, Number: 1, Control: v.control, Secrets: sampleSecrets}}
	case "sidecar":
		return sampleContexts(v.d.Local.Sidecar, v.control)
	case "inbound":
		return sampleContexts(v.d.Local.Sidecar, v.control)[:1]
	case "outbound":
		ctx, _ := sampleContexts(v.d.Local.Sidecar, v.control)[0].(SidecarContext)
		return []any{outboundContext{ctx, ctx.Outbound[0]}}
	case "install":
		return v.d.Kubernetes.sampleInstalls()
	case "enrol":
		return v.d.Kubernetes.sampleEnrols()
	}
	return v.d.Kubernetes.sampleFronts()
}

// local checks the part for one machine.
func (v *validation) local(l Local) {
	s, counts := l.Sidecar, l.Verify.Counts()
	v.oneOf("local.place", cmp.Or(l.Place, RoleSidecar), RoleSidecar, RoleGateway)
	if l.Place == RoleGateway {
		if _, err := v.d.Gateway(""); err != nil {
			v.report("local.place", err.Error(), hint.Of(err))
		}
	}
	if l.Translates && l.Place != RoleGateway {
		v.report("local.translates", "it is of a gateway: sidecars forward requests as they are", "add place: gateway, or remove it")
	}
	if l.Certificates != nil && !v.d.Provides.MTLS {
		v.report("local.certificates", "the mesh does not provide mtls", "add mtls: true to provides, or remove the certificates")
	}
	if s.Bootstrap != nil && s.Config != "" {
		v.report("local.sidecar.config", "the bootstrap prints the configuration", "remove one of config and bootstrap")
	}
	if s.ReadyKind() != ReadyAdmin && counts && s.Counters == nil {
		v.report("local.sidecar", "counters: missing, although local.verify names counters", "add counters: {format: prometheus, url: http://${admin}/metrics}")
	}
	if !counts && (s.ReadyKind() == ReadyAdmin || s.Counters != nil) {
		v.report("local.verify", "missing: nothing would prove that the data plane is in the path", "name the counters of the sidecar: unit, inbound, outbound")
	}
	if counts {
		v.oneOf("local.verify.unit", l.Verify.Unit, UnitRequest, UnitConnection)
	}
	for field, c := range map[string]struct {
		text     string
		possible bool
	}{"inbound": {l.Verify.Inbound, true}, "outbound": {l.Verify.Outbound, true},
		"inboundHandshakes": {l.Verify.InboundHandshakes, v.d.Provides.MTLS}, "outboundHandshakes": {l.Verify.OutboundHandshakes, v.d.Provides.MTLS}} {
		switch {
		case counts && c.text == "" && c.possible && (s.Counters == nil || !strings.HasSuffix(field, "Handshakes")):
			v.report("local.verify."+field, "missing", "name a counter as the sidecar's statistics show it")
		case c.text != "" && !c.possible:
			v.report("local.verify."+field, "the mesh does not provide mtls", "add mtls: true to provides, or remove the counter")
		}
	}
	if _, err := regexp.Compile(l.Verify.Statistics); err != nil {
		v.report("local.verify.statistics", err.Error(), "write a regular expression (RE2)")
	}
	for i, c := range l.Control {
		v.option(fmt.Sprintf("local.control[%d].option", i), c.Option)
	}
	for i, f := range l.Verify.Features {
		v.option(fmt.Sprintf("local.verify.features[%d].option", i), f.Option)
	}
	for _, kind := range slices.Sorted(maps.Keys(l.Changes)) {
		v.oneOf("local.changes."+kind, kind, metric.ChangeNames(nil)...)
		for i, other := range l.Changes[kind].Without {
			v.oneOf(fmt.Sprintf("local.changes.%s.without[%d]", kind, i), other, metric.ChangeNames(nil)...)
		}
	}
}

// option reports a name if no option of the sidecar has it, or if the option takes neither "true" nor numbers.
func (v *validation) option(path, name string) {
	if o := v.d.Local.Sidecar.Options[name]; name != "" && o.UpTo == 0 && !slices.Contains(o.OneOf, on) {
		v.report(path, fmt.Sprintf("there is no option %q with the value true, or with numbers", name), "declare it in local.sidecar.options")
	}
}

// cluster checks the part for clusters.
func (v *validation) cluster(k Kubernetes) {
	if k.Installable() && k.Version == "" {
		v.report("kubernetes.version", "missing", "add the version that is installed by default")
	}
	if k.Installable() && k.Namespace == "" {
		v.report("kubernetes.namespace", "missing", "add the namespace of the control plane")
	}
	seen := map[string]bool{}
	for i, c := range k.Charts {
		if seen[c.Release] {
			v.report(fmt.Sprintf("kubernetes.charts[%d].release", i), fmt.Sprintf("there are two called %q", c.Release), "")
		}
		seen[c.Release] = true
	}
	if (len(k.Charts) > 0 || k.Published != nil) && len(k.Profiles) == 0 {
		v.report("kubernetes.profiles", "missing: the mesh has no size", "add profiles: {dev: {replicas: 1}}")
	}
	for _, name := range slices.Sorted(maps.Keys(k.Profiles)) {
		at := "kubernetes.profiles." + name
		v.oneOf(at, name, ProfileNames()...)
		for _, release := range slices.Sorted(maps.Keys(k.Profiles[name].Values)) {
			v.release(at+".values."+release, release)
		}
	}
	for _, kind := range slices.Sorted(maps.Keys(k.Changes)) {
		v.oneOf("kubernetes.changes."+kind, kind, metric.ChangeNames(nil)...)
	}
	v.proxyValues(k)
	v.revisions(k.Revisions)
	for i, p := range k.Proxies {
		v.proxy(fmt.Sprintf("kubernetes.proxies[%d]", i), p)
	}
	if k.Gateway != nil && k.Gateway.Proxy != nil {
		v.proxy("kubernetes.gateway.proxy", *k.Gateway.Proxy)
	}
	proxies := k.Proxies
	if v.d.OnlyGateway() {
		proxies = []Proxy{*k.Gateway.Proxy}
	}
	for proves, needed := range map[string]bool{ProvesMTLS: v.d.Provides.MTLS, ProvesL7: v.d.Provides.L7} {
		if needed && !slices.ContainsFunc(proxies, func(p Proxy) bool { return p.proves(proves) }) {
			v.report("kubernetes.proxies", "no counter proves "+proves+", which the mesh provides", "add one, or remove it from provides")
		}
	}
}

// proxy checks one part of the data plane against the attribution rules, and its counters.
func (v *validation) proxy(at string, p Proxy) {
	if p.Role != "" && !slices.ContainsFunc(v.d.Tasks, func(r Rule) bool { return r.Role == p.Role }) {
		v.report(at+".role", fmt.Sprintf("no rule of tasks attributes %q", p.Role), "")
	}
	for i, c := range p.Counters {
		v.oneOf(fmt.Sprintf("%s.counters[%d].proves", at, i), c.Proves, ProvesPath, ProvesL7, ProvesMTLS, ProvesTelemetry)
	}
	for i, c := range p.Connections {
		place := fmt.Sprintf("%s.connections[%d]", at, i)
		switch {
		case c.Workload == "":
			v.report(place+".workload", "missing", "add the label with the name of the workload")
		case c.Namespace == "":
			v.report(place+".namespace", "missing", "add the label with the namespace of the workload")
		case p.In != InMesh:
			v.report(place, "applies only to proxies that several workloads share", "use counters")
		}
	}
}

// proves reports whether a counter of the proxy proves something.
func (p Proxy) proves(what string) bool {
	return slices.ContainsFunc(p.Counters, func(c Counter) bool { return c.Proves == what })
}

func (p Proxy) mistakes(report func(field, message, hint string)) {
	if p.In != InPod && len(p.PodLabel) == 0 {
		report("podLabel", "missing: needed to find its pods", "add labels of the pods")
	}
}

func (w Workload) mistakes(report func(field, message, hint string)) {
	if w.Scaled && w.Kind == "DaemonSet" {
		report("scaled", "a DaemonSet has as many pods as there are nodes", "remove it")
	}
}

func (c Chart) mistakes(report func(field, message, hint string)) {
	if c.Repository != "" && strings.HasPrefix(c.Chart, "oci://") {
		report("repository", "the chart is in a registry", "remove one of the two")
	}
}

func (l Leftover) mistakes(report func(field, message, hint string)) {
	if l.Name == "" && l.Namespace == "" && len(l.Labels) == 0 {
		report("", "matches every "+l.Kind, "name a name, a namespace or labels")
	}
	if name := strings.Trim(l.Name, "*"); strings.Contains(name, "*") || name == "" && l.Name != "" {
		report("name", fmt.Sprintf("found %q: * may only stand at the beginning or the end", l.Name), "")
	}
}

func (f Feature) mistakes(report func(field, message, hint string)) {
	if f.Inbound == "" && f.Outbound == "" && len(f.Dump) == 0 {
		report("", "nothing would show that the option acts", "name a counter: inbound or outbound; or texts of the configuration dump")
	}
}

func (c CounterSource) mistakes(report func(field, message, hint string)) {
	if err := c.problem(); err != nil {
		report("", err.Error(), hint.Of(err))
	}
}

func (o Option) mistakes(report func(field, message, hint string)) {
	if len(o.OneOf) > 0 && !slices.Contains(o.OneOf, o.Default) {
		report("default", fmt.Sprintf("found %q, expected %s", o.Default, strings.Join(o.OneOf, ", ")), "")
	}
	if o.UpTo != 0 && (o.UpTo < 0 || o.UpTo > maxCount || !upTo(o.Default, o.UpTo)) {
		report("upTo", fmt.Sprintf("found %d with default %q, expected a maximum to %d and a whole number", o.UpTo, o.Default, maxCount), "")
	}
	if o.Provides != "" && (new(Provides).feature(o.Provides) == nil || !slices.Contains(o.OneOf, on)) {
		report("provides", fmt.Sprintf("found %q, expected mtls, l7, retries or telemetry, of an option with oneOf: [\"false\", \"true\"]", o.Provides), "")
	}
}

// mistakes reports a rule for every task, or for a plane that no rule may name: unattributed are tasks without a rule, and node
// and foreign are not pods of a mesh.
func (r Rule) mistakes(report func(field, message, hint string)) {
	var names []string
	for _, p := range metric.Planes() {
		if p != metric.Unattributed && p != metric.Node && p != metric.Foreign {
			names = append(names, string(p))
		}
	}
	switch {
	case r.Plane == "":
		report("plane", "no plane is given", "planes: "+strings.Join(names, ", "))
	case !slices.Contains(names, string(r.Plane)):
		report("plane", fmt.Sprintf("unknown plane %q", r.Plane), strict.DidYouMean(string(r.Plane), names))
	}
	if cmp.Or(r.Namespace, r.Pod, r.Service, r.Container) == "" && len(r.PodLabel) == 0 {
		report("", "matches every task", "name a namespace, pod, service, container or podLabel")
	}
}

const sampleRevision = "istio-1-30"

// sampleInstalls are one of every profile, or one.
func (k Kubernetes) sampleInstalls() []any {
	var all []any
	for _, name := range ProfileNames() {
		if p, ok := k.Profiles[name]; ok || len(all) == 0 {
			all = append(all, InstallContext{Version: k.Version, Profile: name, Replicas: max(p.Replicas, 1), Namespace: k.Namespace, Revision: sampleRevision, Hub: k.Hub,
				ClusterNetworks: []string{"10.42.0.0/16", "10.43.0.0/16"}, ServiceCIDR: "10.43.0.0/16", ClusterDomain: "cluster.local", Options: defaults(k.Options)})
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
