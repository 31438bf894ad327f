package mesh

import (
	"cmp"
	"encoding/hex"
	"fmt"
	"maps"
	"net/url"
	"reflect"
	"regexp"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/tare-mesh/tare/internal/base/hint"
	"github.com/tare-mesh/tare/internal/base/lists"
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
	planes := lists.Where(metric.Planes(), func(p metric.Plane) bool { return p != metric.Unattributed && p != metric.Node && p != metric.Foreign })
	names := lists.Map(planes, func(p metric.Plane) string { return string(p) })
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
	all := lists.Map([]bool{true, false}, func(inside bool) any {
		return k.sampleEnrol(Way{LoadInside: inside, Services: []ServiceProtocol{{"web", "grpc"}}})
	})
	return append(all, k.sampleFronts()...)
}

func (k Kubernetes) sampleEnrol(way Way) EnrolContext {
	ctx := k.enrolContext(Settings{Version: k.Version, Profile: ProfileDev, Hub: k.Hub, Options: defaults(k.Options)}, "shop", way)
	ctx.Revision = sampleRevision
	return ctx
}

// forms are the texts that a field may have, by the names of their tags, and how a message describes them.
var forms = map[string]struct {
	is               func(string) bool
	expected, advice string
}{

	"label":    {label.MatchString, "lower-case letters, digits and -", ""},
	"variable": {variable.MatchString, "the name of an environment variable", "use letters, digits and _"},
	"path":     {func(s string) bool { return strings.HasPrefix(s, "/") }, "a path such as /metrics", ""},
	"prefix": {func(s string) bool { star := strings.Index(s, "*"); return star < 0 || star == len(s)-1 },
		"* only at the end", "rules compare for equality or for a prefix"},
	"https": {func(s string) bool { u, err := url.Parse(s); return err == nil && u.Scheme == "https" && u.Host != "" }, "an https address", ""},
	"sha256": {func(s string) bool { sum, err := hex.DecodeString(s); return err == nil && len(sum) == 32 },
		"64 hexadecimal digits", "`sha256sum` prints it"},
}

// label is a DNS label (RFC 1123): names become parts of directory names.
var label = regexp.MustCompile(`^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$`)

// checked has rules between its own fields.
type checked interface {
	mistakes(report func(field, message, hint string))
}

// rules checks a value and everything below it by the tags of its fields:
//
//	required:"HINT"  it may not be empty
//	oneOf:"a,b"      its words
//	range:"1,65535"  the bounds of a number
//	form:"label"     its text, one of [forms]; keys:"label" is of the keys of a mapping
//	in:"install"     the data of its templates and of those below it, see [validation.samples]
//	as:"template"    its text is a template; values: of a YAML mapping; manifests: of Kubernetes objects
//
// data is the data of the templates.
func (v *validation) rules(at string, x reflect.Value, data string) {
	switch x.Kind() {
	case reflect.Pointer:
		if !x.IsNil() {
			v.rules(at, x.Elem(), data)
		}
	case reflect.Slice:
		for i := range x.Len() {
			v.rules(fmt.Sprintf("%s[%d]", at, i), x.Index(i), data)
		}
	case reflect.Map:
		for _, key := range sortedKeys(x) {
			v.rules(join(at, key.String()), x.MapIndex(key), data)
		}
	case reflect.Struct:
		v.structure(at, x, data)
	}
}

// structure checks the fields of a struct, and then its own rules.
func (v *validation) structure(at string, x reflect.Value, data string) {
	control, isControl := x.Interface().(Control)
	if isControl {
		v.begin(at, control)
	}
	for f, value := range x.Fields() {
		name, options, _ := strings.Cut(f.Tag.Get("yaml"), ",")
		place := join(at, name)
		if options == "inline" {
			place = at
		}
		if name != "-" {
			v.field(place, f.Tag, value, cmp.Or(f.Tag.Get("in"), data))
		}
	}
	if isControl {
		v.control[control.Name] = v.process
	}
	if c, ok := x.Interface().(checked); ok {
		c.mistakes(func(field, message, hint string) { v.report(join(at, field), message, hint) })
	}
}

// field checks one field by its tag, and the values below it.
func (v *validation) field(at string, tag reflect.StructTag, x reflect.Value, data string) {
	if advice, required := tag.Lookup("required"); required && x.IsZero() {
		v.report(at, "missing", advice)
	}
	if x.IsZero() && strings.Contains(tag.Get("yaml"), ",omitempty") {
		return
	}
	if words := tag.Get("oneOf"); words != "" {
		v.oneOf(at, x.String(), strings.Split(words, ",")...)
	}
	if bounds := tag.Get("range"); bounds != "" {
		var low, high int64
		if _, err := fmt.Sscanf(bounds, "%d,%d", &low, &high); err != nil || x.Int() < low || x.Int() > high {
			v.report(at, fmt.Sprintf("found %d, expected %d to %d", x.Int(), low, high), "")
		}
	}
	if form := tag.Get("keys"); form != "" {
		for _, key := range sortedKeys(x) {
			v.form(join(at, key.String()), key.String(), form)
		}
	}
	eachText(at, x, func(place, text string) {
		v.form(place, text, tag.Get("form"))
		if as := tag.Get("as"); as != "" && data != "" {
			v.template(place, text, v.samples(data), as)
		}
	})
	v.rules(at, x, data)
}

// eachText calls use with each text of a field: its own, of a list or of a mapping.
func eachText(at string, x reflect.Value, use func(place, text string)) {
	switch x.Kind() {
	case reflect.String:
		use(at, x.String())
	case reflect.Slice:
		for i := range x.Len() {
			eachText(fmt.Sprintf("%s[%d]", at, i), x.Index(i), use)
		}
	case reflect.Map:
		for _, key := range sortedKeys(x) {
			eachText(join(at, key.String()), x.MapIndex(key), use)
		}
	}
}

func sortedKeys(m reflect.Value) []reflect.Value {
	return slices.SortedFunc(slices.Values(m.MapKeys()), func(a, b reflect.Value) int { return strings.Compare(a.String(), b.String()) })
}

func join(at, name string) string { return strings.Trim(at+"."+name, ".") }

func (v *validation) form(at, text, name string) {
	if f, ok := forms[name]; ok && text != "" && !f.is(text) {
		v.report(at, fmt.Sprintf("found %q, expected %s", text, f.expected), f.advice)
	}
}

func (v *validation) oneOf(path, found string, words ...string) {
	if slices.Contains(words, found) {
		return
	}
	hint := ""
	if near, ok := strict.Nearest(found, words); ok {
		hint = "did you mean " + near + "?"
	}
	v.report(path, fmt.Sprintf("found %q, expected %s", found, strings.Join(words, ", ")), hint)
}

// template parses a template and executes it for samples, so that a field that does not exist is reported when the file is
// read, not in the first trial. as is the form of its result.
func (v *validation) template(path, text string, samples []any, as string) {
	if !v.doc.Sound(path) {
		return
	}
	for _, sample := range samples {
		b, err := execute("t", text, sample)
		if err != nil {
			v.templateProblem(path, sample, err)
			return
		}
		message, hint := "", ""
		switch as {
		case "values":
			message = valuesProblem(b)
		case "manifests":
			message, hint = manifestProblem(string(b))
		}
		if message != "" {
			v.report(path, message, hint)
			return
		}
	}
}

func valuesProblem(text []byte) string {
	var values map[string]any
	if err := yaml.Unmarshal(text, &values); err != nil {
		return "not a YAML mapping after rendering: " + strings.TrimPrefix(err.Error(), "yaml: ")
	}
	return ""
}

func manifestProblem(text string) (message, hint string) {
	for document := range strings.SplitSeq("\n"+text, "\n---") {
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
			return "its rendered text is not YAML: " + strings.TrimPrefix(err.Error(), "yaml: "), ""
		}
		if o.APIVersion == "" || o.Kind == "" || o.Metadata.Name == "" {
			return "its rendered text is not a Kubernetes object", "it needs apiVersion, kind and metadata.name"
		}
	}
	return "", ""
}

// Coexist returns nil if trials under all of these meshes can be deployed in one cluster at the same time, otherwise
// the reason. A mesh can always be beside itself.
func Coexist(all ...Definition) error {
	byName := map[string]Definition{}
	for _, d := range all {
		byName[d.Name] = d
	}
	if len(byName) < 2 {
		return nil
	}
	homes := map[string]string{} // meshes by namespace of their control planes
	for _, d := range all {
		if d.Kubernetes == nil {
			continue
		}
		if !d.Kubernetes.Coexists {
			return fmt.Errorf("mesh %s may act on the namespaces of others (its definition lacks kubernetes.coexists)", d.Name)
		}
		home := d.Kubernetes.Namespace
		if other, taken := homes[home]; taken && other != d.Name {
			return fmt.Errorf("meshes %s and %s have their control planes in the same namespace, %s", other, d.Name, home)
		}
		homes[home] = d.Name
	}
	return nil
}
