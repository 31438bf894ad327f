package release

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/layout"

	"github.com/tare-mesh/tare/test/difftest"
	"github.com/tare-mesh/tare/test/must"
)

// Each image is an OCI archive for both architectures. Its only layer has the programs of the archives, and its entry
// point runs as the image's user in a root directory with nothing else.
func TestImages(t *testing.T) {
	r := built(t)
	for name, want := range map[string][]string{"tare": programs, "tare-agent": {"tare-agent"}} {
		t.Run(name, func(t *testing.T) {
			path := untar(t, bytes.NewReader(r.read(t, name+"_0.0.9_image.tar")))
			var entries []struct {
				Config   string
				RepoTags []string
			}
			if b, err := os.ReadFile(filepath.Join(path, "manifest.json")); err != nil || json.Unmarshal(b, &entries) != nil || len(entries) != 1 {
				t.Errorf("manifest.json: %+v, %v", entries, err)
			} else if d := difftest.Wrong(`!slices.Equal(entries[0].RepoTags, []string{"localhost/" + name + ":" + version})`, !slices.Equal(entries[0].RepoTags, []string{"localhost/" + name + ":" + version})); d != "" {
				t.Errorf("%s: manifest.json: %+v, %v", d, entries, err)
			}
			index := must.Get(layout.ImageIndexFromPath(path))(t)
			root, err := index.IndexManifest()
			if err != nil || len(root.Manifests) != 1 {
				t.Fatalf("index.json: %+v, %v", root, err)
			}
			each := index
			if root.Manifests[0].MediaType.IsIndex() { // one image alone has none
				each = must.Get(index.ImageIndex(root.Manifests[0].Digest))(t)
			}
			images, err := each.IndexManifest()
			if linux := strings.Count(strings.Join(targets, " "), "linux/"); err != nil || len(images.Manifests) != linux {
				t.Fatalf("index of images: %+v, %v", images, err)
			}
			for _, d := range images.Manifests {
				img := must.Get(each.Image(d.Digest))(t)
				r.image(t, name, d, img, want)
			}
		})
	}
}

func (r release) image(t *testing.T, name string, d v1.Descriptor, img v1.Image, want []string) {
	t.Helper()
	config := must.Get(img.ConfigFile())(t)
	if d.Platform == nil {
		t.Errorf("platform %v, config %+v", d.Platform, config)
	} else if differ := difftest.Of("d.Platform.Architecture", d.Platform.Architecture, config.Architecture, "config.OS", config.OS, "linux", "config.Config.User", config.Config.User, "65532:65532", `slices.Equal(config.Config.Entrypoint, []string{"/" + name})`, slices.Equal(config.Config.Entrypoint, []string{"/" + name}), true, `config.Config.Labels["org.opencontainers.image.version"]`, config.Config.Labels["org.opencontainers.image.version"], version); differ != "" {
		t.Errorf("%s: platform %v, config %+v", differ, d.Platform, config)
	}
	layers, err := img.Layers()
	if err != nil || len(layers) != 1 {
		t.Fatalf("%d layers, %v", len(layers), err)
	}
	content, err := layers[0].Uncompressed() // it checks the digest of the blob
	must.OK(t, err)
	defer content.Close()
	root := untar(t, content)
	archived := r.unpacked(t, "linux/"+config.Architecture)
	files, err := filepath.Glob(filepath.Join(root, "*"))
	if err != nil || len(files) != len(want)+1 { // and /tmp
		t.Errorf("%s: %v, %v", config.Architecture, files, err)
	}
	for _, program := range want {
		a := must.Get(os.ReadFile(filepath.Join(root, program)))(t)
		b, err := os.ReadFile(filepath.Join(archived, program))
		if err != nil || !bytes.Equal(a, b) {
			t.Errorf("%s for %s differs from that of the archive: %v", program, config.Architecture, err)
		}
	}
	if config.Architecture != runtime.GOARCH || os.Getuid() != 0 {
		return
	}
	devices(t, root)
	if got := run(t, inside(root, nil, config.Config.Entrypoint[0], "--version")); got != name+" "+version+"\n" {
		t.Errorf("entry point: %s", got)
	}
	if name == "tare" { // tare-kube is found beside it
		run(t, inside(root, nil, "/tare", "mesh", "--help"))
	}
}
