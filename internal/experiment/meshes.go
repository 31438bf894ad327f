package experiment

import (
	"cmp"
	"maps"
	"slices"

	"github.com/tare-mesh/tare/internal/base/hint"
	"github.com/tare-mesh/tare/internal/experiment/app"
	"github.com/tare-mesh/tare/internal/experiment/mesh"
)

// MeshOptions are the options of one mesh. On Kubernetes.
type MeshOptions struct {
	Version string `yaml:"version,omitempty" json:"version,omitempty"` // empty: the definition's
	Profile string `yaml:"profile,omitempty" json:"profile,omitempty"` // dev (default) or ha
	Hub     string `yaml:"hub,omitempty" json:"hub,omitempty"`         // of images; empty: the mesh's own
	Charts  string `yaml:"charts,omitempty" json:"charts,omitempty"`   // directory on this machine in place of repositories
	// Options by the names that the definition has for them.
	Options map[string]string `yaml:"options,omitempty" json:"options,omitempty"`
	// Values of charts, by release; they go over all others.
	Values map[string]map[string]any `yaml:"values,omitempty" json:"values,omitempty"`
	// WithCLI installs by the mesh's own program, of the version found on PATH; Arguments are added to its last command.
	WithCLI   bool     `yaml:"withCLI,omitempty" json:"withCLI,omitempty"`
	Arguments []string `yaml:"arguments,omitempty" json:"arguments,omitempty"`
}

// Settings are the choices as the definition takes them.
func (o MeshOptions) Settings() mesh.Settings {
	return mesh.Settings{Version: o.Version, Profile: o.Profile, Hub: o.Hub, Options: o.Options, Values: o.Values}
}

// meshRules checks the meshes of the factor and their options.
type meshRules struct{ validation }

func (v meshRules) validate() {
	v.forwards()
	v.options()
}

// options checks the options of meshes, and that each mesh is available on the platform.
func (v meshRules) options() {
	platform := v.e.Platform.Kind
	each(v.validation, "factors.mesh", v.e.meshes(), func(path, name string) {
		d, ok := v.definition(name)
		if !ok || !v.doc.Sound("platform.kind") {
			return
		}
		if err := d.On(platform); err != nil {
			v.report(path, hint.Of(err), "%v", err)
		}
	})
	for _, name := range slices.Sorted(maps.Keys(v.e.Meshes)) {
		path, o := "meshes."+name, v.e.Meshes[name]
		v.oneOf(path, "mesh", name, v.known.Meshes)
		d, ok := v.definition(name)
		if !ok || !v.doc.Sound(path) {
			continue
		}
		switch k := d.Kubernetes; {
		case platform == mesh.OnLocal:
			v.onClusters(path)
		case k == nil:
			v.report(path, "remove it", "mesh %s has no options", name)
		default:
			if _, err := k.Complete(o.Settings()); err != nil {
				v.report(path, hint.Of(err), "%v", err)
			}
			v.installer(path, o, *k)
		}
	}
}

func (v meshRules) installer(path string, o MeshOptions, k mesh.Kubernetes) {
	switch {
	case o.WithCLI && k.CLI == nil:
		v.report(path+".withCLI", "remove it", "the mesh has no CLI that installs it")
	case !o.WithCLI && len(o.Arguments) > 0:
		v.report(path+".arguments", "add withCLI: true, or write values", "only the mesh's own CLI takes arguments")
	case o.WithCLI && len(o.Values) > 0:
		v.report(path+".values", "write arguments instead", "values apply to charts, and the mesh's own CLI installs it")
	case o.WithCLI && o.Charts != "":
		v.report(path+".charts", "remove one of the two", "the mesh's own CLI installs it, without charts")
	}
}

// forwards reports local meshes that do not support the protocol of a service.
func (v meshRules) forwards() {
	if !v.local() || !v.doc.Sound("application") || !v.doc.Sound("factors") {
		return
	}
	all, err := v.e.Topologies()
	if err != nil {
		return // already reported
	}
	tcp := ""
	for _, t := range all {
		for _, s := range t.Services {
			if s.Protocol == app.TCP || s.Protocol == "" && slices.Contains(LevelsOf[string](v.e.Factors, "protocol"), app.TCP) {
				tcp = cmp.Or(tcp, s.Name)
			}
		}
	}
	if tcp == "" {
		return
	}
	each(v.validation, "factors.mesh", v.e.meshes(), func(p, name string) {
		if d, ok := v.definition(name); ok && d.Provides.L7 && d.Local != nil && !d.Local.TCP {
			v.report(p, "use a mesh that forwards connections, such as envoy-tcp", "service %s uses tcp, and %s forwards only HTTP", tcp, name)
		}
	})
}

// describeMeshes has a line for every field; "*" stands for a mesh's name.
func describeMeshes() []description {
	return []description{
		{"meshes", "Settings of each mesh, by name, on kubernetes.", nil, nil},
		{"meshes.*.version", "Version; default: the definition's.", nil, nil},
		{"meshes.*.profile", "dev: small; ha: production advice, needs three nodes.", mesh.ProfileDev, oneOf(mesh.ProfileNames()...)},
		{"meshes.*.hub", "Registry of the mesh's images; default: the charts'.", nil, nil},
		{"meshes.*.charts", "Directory of charts, instead of repositories.", nil, nil},
		{"meshes.*.options", "Options that `tare mesh list` prints.", nil, nil},
		{"meshes.*.values", "Chart values, by release; they override all others.", nil, nil},
		{"meshes.*.withCLI", "Installs with linkerd or istioctl from PATH.", false, nil},
		{"meshes.*.arguments", "Arguments for that program.", nil, nil},
	}
}
