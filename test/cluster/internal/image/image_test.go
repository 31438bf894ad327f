package image

import (
	"archive/tar"
	"bytes"
	"io"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/validate"
	"github.com/tare-mesh/tare/test/must"
)

func TestArchiveIsValidAndTheSameAgain(t *testing.T) {
	dir := t.TempDir()
	program := filepath.Join(dir, "program")
	write := func(at time.Time) []byte {
		t.Helper()
		must.OK(t, os.WriteFile(program, []byte("content"), 0o755))
		must.OK(t, os.Chtimes(program, at, at))
		archive := filepath.Join(dir, "image.tar")
		err := Write(archive, Image{Reference: Reference("program", "1"), Entrypoint: []string{"/bin/program"},
			Files: []File{{Path: "/bin/program", From: program}, {Path: "/bin/alias", Link: "program"}}})
		if err != nil {
			t.Fatal(err)
		}
		data := must.Get(os.ReadFile(archive))(t)
		return data
	}
	first := write(time.Unix(1, 0))
	if !bytes.Equal(first, write(time.Unix(1e9, 0))) {
		t.Error("the same files, at another time, give another archive")
	}
	tag := must.Get(name.NewTag(Reference("program", "1")))(t)
	img := must.Get(tarball.ImageFromPath(filepath.Join(dir, "image.tar"), &tag))(t)
	if err := validate.Image(img); err != nil {
		t.Error(err)
	}
	layers, err := img.Layers()
	if err != nil || len(layers) != 1 {
		t.Fatalf("%d layers, %v", len(layers), err)
	}
	content := must.Get(layers[0].Uncompressed())(t)
	defer content.Close()
	var names []string
	for r := tar.NewReader(content); ; {
		header, err := r.Next()
		if err == io.EOF {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		names = append(names, header.Name)
	}
	if want := []string{"bin/", "bin/alias", "bin/program", "tmp/"}; !slices.Equal(names, want) {
		t.Errorf("got %v, want %v", names, want)
	}
}

func TestAFileThatIsNotThere(t *testing.T) {
	err := Write(filepath.Join(t.TempDir(), "image.tar"), Image{Reference: Reference("x", "1"), Files: []File{{Path: "/x", From: "/nowhere/x"}}})
	if err == nil {
		t.Error("packed")
	}
}
