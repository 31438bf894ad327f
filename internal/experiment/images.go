package experiment

import (
	"maps"
	"slices"
	"strings"

	"github.com/tare-mesh/tare/internal/base/strict"
)

// ProgramsImage, in place of an image of a generator, is the image of tare-agent.
const ProgramsImage = "agent"

// Image is where a load generator comes from in a cluster.
type Image struct {
	Image string `yaml:"image" json:"image"`
	// Path of its program in the image; empty: where tare knows it to be, else at the root by its own name.
	Path string `yaml:"path,omitempty" json:"path,omitempty"`
}

// ShortForm reads the image's reference alone.
func (i *Image) ShortForm() (any, func()) {
	ref := new(string)
	return ref, func() { *i = Image{Image: *ref} }
}

// images checks the images of generators.
func (v validation) images() {
	for _, name := range slices.Sorted(maps.Keys(v.e.Platform.Images)) {
		path, i := "platform.images."+name, v.e.Platform.Images[name]
		switch {
		case v.e.Platform.Kind == "local":
			v.report(path, "leave it out", "it is of clusters, and the platform is local")
		case v.e.Outside():
			v.report(path, "leave it out", "the load is sent from outside the cluster, by programs of this machine")
		case !slices.Contains(v.known.Generators, name):
			v.report(path, strict.DidYouMean(name, v.known.Generators), "there is no load generator of this name")
		case i.Image == "" || strings.ContainsAny(i.Image, " \t\n"):
			v.report(path, "write it as REGISTRY/NAME:TAG, or "+ProgramsImage+" where it is in the image of tare-agent", "it is no image")
		case i.Path != "" && !strings.HasPrefix(i.Path, "/"):
			v.report(path+".path", "", "%q is no path from the root of the image", clip(i.Path))
		}
	}
}
