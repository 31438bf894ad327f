package mesh

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

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
	for label, want := range l.Labels {
		if got, has := labels[label]; !has || !match(want, got) {
			return false
		}
	}
	if suffix, is := strings.CutPrefix(l.Name, "*"); is && !strings.HasSuffix(name, suffix) {
		return false
	} else if !is && l.Name != "" && !match(l.Name, name) {
		return false
	}
	return l.Kind == kind && l.Group == group && (l.Namespace == "" || match(l.Namespace, namespace))
}

// Match compares as rules do: for equality, or for a prefix where want ends in "*".
func Match(want, got string) bool { return match(want, got) }

// Selects reports whether a pod with these labels belongs to the proxy.
func (p Proxy) Selects(labels map[string]string) bool {
	return has(labels, p.PodLabel)
}

// Objects renders the mesh's own objects.
func (k Kubernetes) Objects(ctx InstallContext) (streams [][]byte, err error) {
	var r rendering
	for _, text := range r.texts("manifests", k.Manifests, ctx) {
		streams = append(streams, []byte(text))
	}
	return streams, r.err("the objects of the mesh")
}
