package release

import (
	"io"
	"log"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/registry"
	"github.com/google/go-containerregistry/pkg/v1/remote"

	"github.com/tare-mesh/tare/test/must"
)

// With -push both images are in the registry, for all architectures, under the printed digests.
func TestImagesArePushed(t *testing.T) {
	r := built(t)
	work := t.TempDir()
	out, built := filepath.Join(work, "out"), filepath.Join(work, "programs")
	linux := 0
	for _, target := range targets {
		system, arch, _ := strings.Cut(target, "/")
		if system != "linux" {
			continue
		}
		linux++
		dir, from := filepath.Join(built, system+"-"+arch), r.unpacked(t, target)
		for _, d := range []string{dir, out} {
			must.OK(t, os.MkdirAll(d, 0o755))
		}
		for _, program := range []string{"tare", "tare-agent"} {
			must.OK(t, os.Rename(filepath.Join(from, program), filepath.Join(dir, program)))
		}
		must.OK(t, os.WriteFile(filepath.Join(out, archive(target)), r.read(t, archive(target)), 0o600))
	}
	server := httptest.NewServer(registry.New(registry.Logger(log.New(io.Discard, "", 0))))
	defer server.Close()
	host := strings.TrimPrefix(server.URL, "http://")
	program := filepath.Join(work, "release")
	run(t, exec.Command("go", "build", "-C", "../../tools/release", "-o", program, "."))
	printed := strings.Fields(run(t, exec.Command(program, "-out", out, "-programs", built, "-version", version, "-commit", strings.Repeat("0", 40), "-push", host+"/mesh")))
	if len(printed) != 2 {
		t.Fatalf("printed %v", printed)
	}
	for i, image := range []string{"tare", "tare-agent"} {
		tag := must.Get(name.NewTag(host + "/mesh/" + image + ":" + version))(t)
		d := must.Get(remote.Head(tag))(t)
		if want := tag.Context().Name() + "@" + d.Digest.String(); printed[i] != want {
			t.Errorf("printed %s, in the registry %s", printed[i], want)
		}
		if linux == 1 {
			continue
		}
		index := must.Get(remote.Index(tag))(t)
		if m, err := index.IndexManifest(); err != nil || len(m.Manifests) != linux {
			t.Errorf("%s: %+v, %v", image, m, err)
		}
	}
}
