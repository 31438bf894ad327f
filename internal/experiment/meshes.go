package experiment

import (
	"errors"
	"maps"
	"slices"

	"github.com/tare-mesh/tare/internal/experiment/mesh"
)

// MeshOptions are what is chosen of one mesh beyond its name. On Kubernetes.
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

// meshes checks what is chosen of meshes, and that each can be had on the platform.
func (v validation) meshes() {
	platform := v.e.Platform.Kind
	each(v, "factors.mesh", v.e.Factors.Mesh, func(path, name string) {
		d, ok := v.definition(name)
		if !ok || !v.doc.Sound("platform.kind") {
			return
		}
		if err := d.On(platform); err != nil {
			v.report(path, hintOf(err), "%v", err)
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
			v.report(path, "leave it out", "it is of clusters, and the platform is local")
		case k == nil:
			v.report(path, "leave it out", "mesh %s has nothing to choose", name)
		default:
			if _, err := k.Complete(o.Settings()); err != nil {
				v.report(path, hintOf(err), "%v", err)
			}
			v.installer(path, o, *k)
		}
	}
}

func (v validation) installer(path string, o MeshOptions, k mesh.Kubernetes) {
	switch {
	case o.WithCLI && k.CLI == nil:
		v.report(path+".withCLI", "leave it out", "the mesh has no program that installs it")
	case !o.WithCLI && len(o.Arguments) > 0:
		v.report(path+".arguments", "add withCLI: true, or give values to its charts", "they are of the mesh's own program")
	case o.WithCLI && len(o.Values) > 0:
		v.report(path+".values", "give arguments in their place", "they are of charts, and the mesh's own program installs it")
	case o.WithCLI && o.Charts != "":
		v.report(path+".charts", "remove one of the two", "the mesh's own program installs it")
	}
}

// definition is that of a mesh, where definitions are known.
func (v validation) definition(name string) (mesh.Definition, bool) {
	if v.known.Definition == nil {
		return mesh.Definition{}, false
	}
	return v.known.Definition(name)
}

func hintOf(err error) string {
	var hinted interface{ Hint() string }
	if errors.As(err, &hinted) {
		return hinted.Hint()
	}
	return ""
}

// describeMeshes has a line for every field; "*" stands for a mesh's name.
func describeMeshes() []description {
	return []description{
		{"meshes", "What is chosen of each mesh beyond its name, by name. On kubernetes.", nil, nil},
		{"meshes.*.version", "Version of the mesh; left out: the one its definition names.", nil, nil},
		{"meshes.*.profile", "Size of the mesh: dev fits a laptop, ha is what the mesh recommends for production and needs three nodes.", mesh.ProfileDev, oneOf(mesh.ProfileNames()...)},
		{"meshes.*.hub", "Where the mesh's images come from; left out: where its charts say.", nil, nil},
		{"meshes.*.charts", "Directory on this machine with the mesh's charts, in place of their repositories.", nil, nil},
		{"meshes.*.options", "Options by the names that `tare mesh list` shows.", nil, nil},
		{"meshes.*.values", "Values of charts, by release; they go over all others.", nil, nil},
		{"meshes.*.withCLI", "Installs by the mesh's own program (linkerd, istioctl), of the version found on PATH.", false, nil},
		{"meshes.*.arguments", "Arguments for that program.", nil, nil},
	}
}
