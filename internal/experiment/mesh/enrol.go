package mesh

import (
	"cmp"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/tare-mesh/tare/internal/base/cgroup"
	"github.com/tare-mesh/tare/internal/base/hint"
	"github.com/tare-mesh/tare/internal/base/lists"
	"github.com/tare-mesh/tare/internal/experiment/manifest"
)

// Settings are a user's options for a mesh on Kubernetes. The zero value has the definition's defaults.
type Settings struct {
	Version string // of the mesh, empty for the definition's
	// Revision, or revision tag, of a mesh that tare did not install. Empty: the one that injects by default, or the only one.
	Revision string
	Profile  string            // empty: the default one
	Hub      string            // of images, empty for the definition's
	Options  map[string]string // by name, where absent ones have their default
	// Proxy are settings of the sidecars. They go over the definition's and the profile's values.
	Proxy ProxySettings
	// Values go over everything else, by release.
	Values map[string]map[string]any
}

// EnrolContext is the data of the templates of an [Enrolment].
type EnrolContext struct {
	Version   string
	Profile   string
	Replicas  int    // of the profile
	Namespace string // the application's
	Revision  string // of the mesh, empty if it is alone
	// MeshNamespace is the namespace of the control plane.
	MeshNamespace string
	// LoadInside: the load generator is in the mesh.
	LoadInside bool
	// Gateway is the backend of the mesh's ingress gateway, if the load enters there, or else nil.
	Gateway *Front
	// Closed: all clients of the application are in the mesh, either the load or the gateway.
	Closed bool
	// Services of the application.
	Services []ServiceProtocol
	Hub      string
	Options  map[string]string
}

// InstallContext is the data of the templates of an installation.
type InstallContext struct {
	Version   string
	Profile   string
	Replicas  int
	Namespace string // the mesh's
	Revision  string // empty: it is the only one of this mesh
	// ClusterNetworks are the networks of pods and services, such as 10.42.0.0/16. ServiceCIDR is the services' network.
	ClusterNetworks []string
	ServiceCIDR     string
	// ClusterDomain is the domain of the names of Services, such as cluster.local. Empty means unknown.
	ClusterDomain string
	// Distribution of Kubernetes where it is known: gke, k3s, k3d, minikube, or else empty.
	Distribution string
	Hub          string
	Options      map[string]string
	Certificates IssuedCertificates
}

// IssuedCertificates are PEM, empty where the definition asks for none.
type IssuedCertificates struct {
	TrustAnchor string // certificate
	Issuer      string // certificate
	IssuerKey   string
}

// Enrolled is the rendered enrolment of one application's namespace.
type Enrolled struct {
	Namespace Marks // of the namespace
	Pod       Marks // of each pod in the mesh, the load's too where it is inside
	Exempt    Marks // of each pod that stays out
	// Manifests are YAML documents, applied in the new namespace before any pod.
	Manifests []string
	// Workloads are created by the manifests. Scaled ones have Replicas.
	Workloads []Workload
	Replicas  int
	// Conditions must hold before the load is sent.
	Conditions []Condition
	// Proof are marks that the mesh adds to its pods.
	Proof Marks
	// Simulated is where simulated proxies connect, empty if the definition has no address.
	Simulated Simulated
}

// Complete fills in the settings' defaults, and refuses settings unknown to the definition.
func (k Kubernetes) Complete(s Settings) (Settings, error) {
	s.Version = cmp.Or(s.Version, k.Version)
	s.Hub = cmp.Or(s.Hub, k.Hub)
	if s.Profile == "" {
		for _, name := range slices.Backward(ProfileNames()) {
			if _, ok := k.Profiles[name]; ok {
				s.Profile = name
			}
		}
	} else if _, ok := k.Profiles[s.Profile]; !ok {
		return s, hint.New("profiles: "+strings.Join(slices.Sorted(maps.Keys(k.Profiles)), ", "), "there is no profile %q", s.Profile)
	}
	options, err := chosen(k.Options, s.Options)
	if err != nil {
		return s, err
	}
	s.Options = options
	if err := k.ProxyValues.check(s.Proxy); err != nil {
		return s, err
	}
	for _, release := range slices.Sorted(maps.Keys(s.Values)) {
		if !slices.ContainsFunc(k.Charts, func(c Chart) bool { return c.Release == release }) {
			releases := lists.Map(k.Charts, func(c Chart) string { return c.Release })
			return s, hint.New("releases: "+strings.Join(releases, ", "), "this mesh has no release %q for values", release)
		}
	}
	return s, nil
}

// Enrol renders what puts namespace under the mesh. Settings are completed first.
func (k Kubernetes) Enrol(s Settings, namespace string, way Way) (Enrolled, error) {
	s, err := k.Complete(s)
	if err != nil {
		return Enrolled{}, err
	}
	ctx := k.enrolContext(s, namespace, way)
	e := k.Enrolment
	done := Enrolled{Workloads: e.Workloads, Replicas: ctx.Replicas}
	if way.Front != nil && k.Gateway != nil {
		e.Manifests = slices.Concat(e.Manifests, k.Gateway.Manifests)
		done.Workloads = slices.Concat(e.Workloads, k.Gateway.Workloads)
		done.Conditions = k.Gateway.Conditions
	}
	var r rendering
	done.Namespace, done.Pod = e.Namespace.render(&r, ctx), e.Pod.render(&r, ctx)
	done.Exempt, done.Proof = e.Exempt.render(&r, ctx), e.Proof.render(&r, ctx)
	done.Manifests = slices.DeleteFunc(r.texts("manifests", e.Manifests, ctx), func(text string) bool { return strings.TrimSpace(text) == "" })
	if k.Background != nil {
		done.Simulated, err = k.Background.Render(ctx)
		r.first = cmp.Or(r.first, err)
	}
	return done, r.err("the enrolment of namespace " + namespace)
}

// RefusesPlaintext reports whether requests without TLS from outside the mesh must be refused.
func (k Kubernetes) RefusesPlaintext(s Settings, namespace string, way Way) (bool, error) {
	s, err := k.Complete(s)
	if err != nil {
		return false, err
	}
	b, err := execute("plaintext.refused", k.Plaintext.Refused, k.enrolContext(s, namespace, way))
	return strings.TrimSpace(string(b)) == "true", err
}

func (k Kubernetes) enrolContext(s Settings, namespace string, way Way) EnrolContext {
	return EnrolContext{Version: s.Version, Profile: s.Profile, Replicas: k.replicas(s), Namespace: namespace, Revision: k.Revision, MeshNamespace: k.Namespace, Hub: s.Hub, Options: s.Options,
		LoadInside: way.LoadInside, Gateway: way.Front, Closed: way.LoadInside || way.Front != nil, Services: way.Services}
}

func (m Marks) render(r *rendering, ctx EnrolContext) Marks {
	return Marks{r.mapping(m.Labels, ctx), r.mapping(m.Annotations, ctx)}
}

// InstallContext returns the context of complete settings, without the fields from the cluster and the certificates.
func (k Kubernetes) InstallContext(s Settings) InstallContext {
	return InstallContext{Version: s.Version, Profile: s.Profile, Replicas: k.replicas(s), Namespace: k.Namespace, Revision: k.Revision, Hub: s.Hub, Options: s.Options}
}

// replicas of the profile, where a mesh without profiles has one of everything.
func (k Kubernetes) replicas(s Settings) int { return max(k.Profiles[s.Profile].Replicas, 1) }

// Release is one chart with all that was chosen.
type Release struct {
	Chart
	Values map[string]any
}

// Releases renders the charts in their order: the chart's values, over them the profile's, the settings of the sidecars
// and the user's.
func (k Kubernetes) Releases(s Settings, ctx InstallContext) ([]Release, error) {
	var all []Release
	for _, c := range k.Charts {
		r := Release{Chart: c, Values: map[string]any{}}
		r.Namespace = cmp.Or(c.Namespace, k.Namespace)
		version, err := execute("version", cmp.Or(c.Version, "{{.Version}}"), ctx)
		if err != nil {
			return nil, fmt.Errorf("render the version of chart %s: %w", c.Release, err)
		}
		r.Version = string(version)
		texts := []string{c.Values, k.Profiles[s.Profile].Values[c.Release]}
		if k.Revision != "" {
			texts = append(texts, k.Revisions.Values[c.Release])
		}
		for _, text := range texts {
			values, err := renderValues(text, ctx)
			if err != nil {
				return nil, fmt.Errorf("render the values of chart %s: %w", c.Release, err)
			}
			manifest.Overlay(r.Values, values)
		}
		if c.Release == k.ProxyValues.Release {
			manifest.Overlay(r.Values, k.ProxyValues.Values(s.Proxy))
		}
		manifest.Overlay(r.Values, s.Values[c.Release])
		all = append(all, r)
	}
	return all, nil
}

func renderValues(text string, ctx InstallContext) (map[string]any, error) {
	b, err := execute("values", text, ctx)
	if err != nil {
		return nil, err
	}
	var values map[string]any
	if err := yaml.Unmarshal(b, &values); err != nil {
		return nil, err
	}
	return values, nil
}

// Matches reports whether an object is a leftover.
func (l Leftover) Matches(group, kind, namespace, name string, labels map[string]string) bool {
	if suffix, is := strings.CutPrefix(l.Name, "*"); is && !strings.HasSuffix(name, suffix) || !is && l.Name != "" && !Match(l.Name, name) {
		return false
	}
	return l.Kind == kind && l.Group == group && (l.Namespace == "" || Match(l.Namespace, namespace)) && has(labels, l.Labels)
}

// Selects reports whether a pod with these labels belongs to the proxy.
func (p Proxy) Selects(labels map[string]string) bool {
	return has(labels, p.PodLabel)
}

// Objects renders the mesh's own objects.
func (k Kubernetes) Objects(ctx InstallContext) (streams [][]byte, err error) {
	var r rendering
	streams = lists.Map(r.texts("manifests", k.Manifests, ctx), func(text string) []byte { return []byte(text) })
	return streams, r.err("the objects of the mesh")
}

// Overrides are changes of a sidecar on this machine. Zero fields change nothing.
type Overrides struct {
	Program     string            // path, or name on PATH
	Version     string            // of the program that the platform downloads
	Concurrency int               // worker threads
	Arguments   []string          // added after the definition's arguments
	Environment map[string]string // added to the definition's environment
	Options     map[string]string // by the names of the definition
	Limits      cgroup.Limits     // of each sidecar
}

// variable is the form of the name of an environment variable.
var variable = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)

// Variant returns the definition under a name, with a changed sidecar. A definition without a local part
// takes no changes: on Kubernetes they are [Settings]. The error has a hint.
func (d Definition) Variant(name string, o Overrides) (Definition, error) {
	if name != d.Name {
		d.From, d.Name = d.Name, name
	}
	if d.Local == nil {
		return d, nil
	}
	local := *d.Local
	s := &local.Sidecar
	options, err := chosen(s.Options, o.Options)
	if err != nil {
		return d, err
	}
	s.Options = maps.Clone(s.Options)
	for name, value := range options {
		option := s.Options[name]
		option.Default = value
		s.Options[name] = option
	}
	if err := checkProcess(o.Concurrency, o.Environment); err != nil {
		return d, err
	}
	s.Concurrency = cmp.Or(o.Concurrency, s.Concurrency)
	if len(o.Environment) > 0 {
		environment := map[string]string{}
		maps.Copy(environment, s.Environment)
		maps.Copy(environment, o.Environment)
		s.Environment = environment
	}
	s.Args = append(slices.Clone(s.Args), literals(o.Arguments)...)
	if o.Program != "" && o.Version != "" {
		return d, hint.New("remove one of the two", "it has both program and version")
	}
	s.Path, s.Version, s.Limits = o.Program, o.Version, o.Limits
	d.Provides = d.Provides.switched(s.Options)
	if !d.Provides.MTLS {
		local.Verify.InboundHandshakes, local.Verify.OutboundHandshakes = "", ""
	}
	d.Local = &local
	return d, nil
}

// checkProcess refuses a number of worker threads, and names of environment variables, that no sidecar can have. The error has a hint.
func checkProcess(concurrency int, environment map[string]string) error {
	if concurrency < 0 || concurrency > maxConcurrency {
		return hint.New(fmt.Sprintf("expected 1 to %d worker threads", maxConcurrency), "concurrency is %d", concurrency)
	}
	for _, name := range slices.Sorted(maps.Keys(environment)) {
		if !variable.MatchString(name) {
			return hint.New("use letters, digits and _", "%.40q is no name of an environment variable", name)
		}
	}
	return nil
}

// switched returns the features as options switch them.
func (p Provides) switched(options map[string]Option) Provides {
	for _, o := range options {
		if feature := p.feature(o.Provides); feature != nil {
			*feature = o.Default == on
		}
	}
	return p
}

// OptionOf is the option that switches a feature on this machine. Empty: none does.
func (d Definition) OptionOf(feature string) string {
	if d.Local == nil {
		return ""
	}
	for name, o := range d.Local.Sidecar.Options {
		if o.Provides == feature {
			return name
		}
	}
	return ""
}

// feature is the field of a feature's name. Nil means an unknown feature.
func (p *Provides) feature(name string) *bool {
	return map[string]*bool{"mtls": &p.MTLS, "l7": &p.L7, "retries": &p.Retries, "telemetry": &p.Telemetry}[name]
}

// literals are templates that print the texts.
func literals(texts []string) []string {
	return lists.Map(texts, func(text string) string { return strings.ReplaceAll(text, "{{", `{{"{{"}}`) })
}

// Chosen returns the values of the sidecar's options: a variant's values, or the defaults.
func (s Sidecar) Chosen() map[string]string { return defaults(s.Options) }

// chosen are the values of all options. The error names an unknown option or value.
func chosen(options map[string]Option, values map[string]string) (map[string]string, error) {
	all := defaults(options)
	for _, name := range slices.Sorted(maps.Keys(values)) {
		o, ok := options[name]
		switch {
		case !ok && len(options) == 0:
			return nil, hint.New("remove it", "there is no option %q: the mesh has none", name)
		case !ok:
			return nil, hint.New("options: "+strings.Join(slices.Sorted(maps.Keys(options)), ", "), "there is no option %q", name)
		case len(o.OneOf) > 0 && !slices.Contains(o.OneOf, values[name]):
			return nil, hint.New("expected "+strings.Join(o.OneOf, ", "), "option %s: found %q", name, values[name])
		case o.UpTo > 0 && !upTo(values[name], o.UpTo):
			return nil, hint.New(fmt.Sprintf("expected a whole number from 0 to %d", o.UpTo), "option %s: found %.20q", name, values[name])
		}
		all[name] = values[name]
	}
	return all, nil
}

// defaults are the values of options that nobody has chosen.
func defaults(options map[string]Option) map[string]string {
	values := map[string]string{}
	for name, o := range options {
		values[name] = o.Default
	}
	return values
}

// upTo reports whether a text is a whole number from 0 to most, as strconv writes it.
func upTo(text string, most int) bool {
	n, err := strconv.Atoi(text)
	return err == nil && n >= 0 && n <= most && strconv.Itoa(n) == text
}

// Options are the options of both parts by name. A local one is described where both have it.
func (d Definition) Options() map[string]Option {
	all := map[string]Option{}
	if d.Kubernetes != nil {
		maps.Copy(all, d.Kubernetes.Options)
	}
	if d.Local != nil {
		maps.Copy(all, d.Local.Sidecar.Options)
	}
	return all
}

// ProxySettings are a user's settings of the sidecars on Kubernetes. Zero fields change nothing.
type ProxySettings struct {
	Image       string
	Concurrency int // worker threads
	Environment map[string]string
	// Requests and Limits are quantities as Kubernetes writes them, by resource: cpu, memory.
	Requests, Limits map[string]string
}

// ProxyValues are the places of settings of the sidecars in the values of a chart.
type ProxyValues struct {
	Release string `yaml:"release" json:"release"`
	// Paths of the values, such as global.proxy.image, by setting: image, concurrency, environment, requests.cpu,
	// requests.memory, limits.cpu, limits.memory.
	Paths map[string]string `yaml:"paths" json:"paths"`
	// Annotations of a pod for its own sidecar, by name: texts with settings, such as ${requests.cpu}. A text whose
	// setting is absent is left out.
	Annotations map[string]string `yaml:"annotations,omitempty" json:"annotations,omitempty"`
}

// setting is one in the text of an annotation.
var setting = regexp.MustCompile(`\$\{[^}]*\}`)

var proxySettings = []string{"image", "concurrency", "environment", "requests.cpu", "requests.memory", "limits.cpu", "limits.memory"}

func (p ProxySettings) Any() bool { return len(p.set()) > 0 }

// check refuses settings that have no place in the charts. The error has a hint.
func (v ProxyValues) check(p ProxySettings) error {
	if err := checkProcess(p.Concurrency, p.Environment); err != nil {
		return err
	}
	for _, name := range slices.Sorted(maps.Keys(p.set())) {
		if v.Paths[name] != "" {
			continue
		}
		advice := "write options or values"
		if len(v.Paths) > 0 {
			advice = "it has " + strings.Join(slices.Sorted(maps.Keys(v.Paths)), ", ") + "; or " + advice
		}
		return hint.New(advice, "the mesh has no setting %s of its sidecars on kubernetes", name)
	}
	return nil
}

// Values are the values of the chart of Release with those settings that have a place there.
func (v ProxyValues) Values(p ProxySettings) map[string]any {
	all := map[string]any{}
	for name, value := range p.set() {
		if v.Paths[name] == "" {
			continue
		}
		manifest.Overlay(all, manifest.Nested(v.Paths[name], value))
	}
	return all
}

// PodAnnotations are the annotations of a pod that give its sidecar the settings.
func (v ProxyValues) PodAnnotations(p ProxySettings) map[string]string {
	all, set := map[string]string{}, p.set()
	for name, text := range v.Annotations {
		complete := true
		text = setting.ReplaceAllStringFunc(text, func(of string) string {
			value, ok := set[strings.Trim(of, "${}")]
			complete = complete && ok
			return fmt.Sprint(value)
		})
		if complete {
			all[name] = text
		}
	}
	return all
}

// set are the settings that are not zero, by name.
func (p ProxySettings) set() map[string]any {
	all := map[string]any{}
	if p.Image != "" {
		all["image"] = p.Image
	}
	if p.Concurrency != 0 {
		all["concurrency"] = p.Concurrency
	}
	if len(p.Environment) > 0 {
		environment := map[string]any{}
		for name, value := range p.Environment {
			environment[name] = value
		}
		all["environment"] = environment
	}
	for kind, amounts := range map[string]map[string]string{"requests": p.Requests, "limits": p.Limits} {
		for resource, quantity := range amounts {
			all[kind+"."+resource] = quantity
		}
	}
	return all
}

func (v *validation) proxyValues(k Kubernetes) {
	const at = "kubernetes.proxyValues"
	if len(k.ProxyValues.Paths) == 0 && k.ProxyValues.Release == "" {
		return
	}
	v.release(at+".release", k.ProxyValues.Release)
	for _, name := range slices.Sorted(maps.Keys(k.ProxyValues.Annotations)) {
		for _, of := range setting.FindAllString(k.ProxyValues.Annotations[name], -1) {
			if !slices.Contains(proxySettings, strings.Trim(of, "${}")) {
				v.report(at+".annotations."+name, fmt.Sprintf("found %q, which is not a setting", of), "write one of "+strings.Join(proxySettings, ", "))
			}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(k.ProxyValues.Paths)) {
		path := at + ".paths." + name
		v.oneOf(path, name, proxySettings...)
		if slices.Contains(strings.Split(k.ProxyValues.Paths[name], "."), "") {
			v.report(path, fmt.Sprintf("found %q, expected keys with dots between them", k.ProxyValues.Paths[name]), "")
		}
	}
}
