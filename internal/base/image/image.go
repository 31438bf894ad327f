// Package image builds container images of static programs, such as tare-agent,
// and loads them into clusters. It needs no container engine: it writes the
// image's tar archives itself.
package image

import (
	"archive/tar"
	"bytes"
	"errors"
	"fmt"
	"io"
	"path"
	"slices"
	"strings"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"

	"github.com/tare-mesh/tare/internal/base/regular"
)

// User runs an image's program. It is a number, since Kubernetes cannot decide
// whether a name is root, and one that no distribution assigns.
const User = "65532:65532"

// maxProgram bounds a program of an image, in bytes.
const maxProgram = 1 << 30

// epoch is the time of all files of an image, so that the same programs give the same image, byte for byte.
var epoch = time.Unix(0, 0).UTC()

// Program is one executable of an image.
type Program struct {
	Name string // in the image, at the root: "tare-agent" is /tare-agent
	Path string // on this machine: a static executable for Linux
}

// Image is an image for one architecture.
type Image struct {
	v1.Image
	Arch string // as Go names it: amd64, arm64
}

// Build builds an image whose entry point is the first of programs. The same
// files give the same image. All programs must be static and for one
// architecture. The error wraps [ErrNotStatic] if one is dynamic.
func Build(programs []Program, labels map[string]string) (Image, error) {
	if len(programs) == 0 {
		return Image{}, errors.New("build image: no program given")
	}
	arch, err := architecture(programs)
	if err != nil {
		return Image{}, fmt.Errorf("build image: %w", err)
	}
	content, err := layer(programs)
	if err != nil {
		return Image{}, fmt.Errorf("build image: %w", err)
	}
	l, err := tarball.LayerFromOpener(func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(content)), nil },
		tarball.WithMediaType(types.OCILayer))
	if err != nil {
		return Image{}, fmt.Errorf("build image: %w", err)
	}
	img, err := mutate.Append(mutate.MediaType(mutate.ConfigMediaType(empty.Image, types.OCIConfigJSON), types.OCIManifestSchema1),
		mutate.Addendum{Layer: l, History: v1.History{Created: v1.Time{Time: epoch}, CreatedBy: "tare cluster image build"}})
	if err != nil {
		return Image{}, fmt.Errorf("build image: %w", err)
	}
	config, err := img.ConfigFile()
	if err != nil {
		return Image{}, fmt.Errorf("build image: %w", err)
	}
	config = config.DeepCopy()
	config.OS, config.Architecture, config.Created = "linux", arch, v1.Time{Time: epoch}
	config.Config = v1.Config{Entrypoint: []string{"/" + programs[0].Name}, User: User, WorkingDir: "/tmp", Labels: labels}
	if img, err = mutate.ConfigFile(img, config); err != nil {
		return Image{}, fmt.Errorf("build image: %w", err)
	}
	return Image{Image: img, Arch: arch}, nil
}

// layer is the only layer of an image: the programs, sorted, and a writable /tmp.
func layer(programs []Program) ([]byte, error) {
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	header := func(name string, kind byte, mode, size int64) error {
		return w.WriteHeader(&tar.Header{Name: name, Typeflag: kind, Mode: mode, Size: size, ModTime: epoch, Format: tar.FormatUSTAR})
	}
	if err := header("tmp/", tar.TypeDir, 0o1777, 0); err != nil {
		return nil, err
	}
	sorted := slices.SortedFunc(slices.Values(programs), func(a, b Program) int { return strings.Compare(a.Name, b.Name) })
	for i, p := range sorted {
		if p.Name == "" || p.Name != path.Base(p.Name) || p.Name == "." || p.Name == "tmp" {
			return nil, fmt.Errorf("%q is not a valid name for a program at the image's root", p.Name)
		}
		if i > 0 && sorted[i-1].Name == p.Name {
			return nil, fmt.Errorf("two programs are named %s", p.Name)
		}
		content, err := regular.ReadFile(p.Path, maxProgram)
		if err != nil {
			return nil, err
		}
		if err := header(p.Name, tar.TypeReg, 0o755, int64(len(content))); err != nil {
			return nil, err
		}
		if _, err := w.Write(content); err != nil {
			return nil, err
		}
	}
	if err := w.Close(); err != nil {
		return nil, err
	}
	return b.Bytes(), nil
}

// Index is one reference for images of several architectures.
func Index(images []Image) (v1.ImageIndex, error) {
	index := mutate.IndexMediaType(empty.Index, types.OCIImageIndex)
	seen := map[string]bool{}
	for _, img := range images {
		if seen[img.Arch] {
			return nil, fmt.Errorf("make image index: two images for %s", img.Arch)
		}
		seen[img.Arch] = true
		index = mutate.AppendManifests(index, mutate.IndexAddendum{Add: img.Image,
			Descriptor: v1.Descriptor{Platform: &v1.Platform{OS: "linux", Architecture: img.Arch}}})
	}
	return index, nil
}
