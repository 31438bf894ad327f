package image

import (
	"archive/tar"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/tarball"

	"github.com/tare-mesh/tare/internal/base/hint"
	"github.com/tare-mesh/tare/internal/base/lists"
)

// Reference is the full name of an image. A name without a registry belongs to
// localhost, not to a public registry, so that a missing image is never pulled
// from there by mistake.
func Reference(s string) (name.Tag, error) {
	if strings.Contains(s, "://") {
		return name.Tag{}, hint.New("write registry.example/name:tag", "image reference %q: an image has no URL scheme", s)
	}
	ref, err := name.NewTag(s, name.WithDefaultRegistry("localhost"), name.WeakValidation)
	return ref, hint.Prefix(err, "image reference %q", s)
}

// WriteArchive writes images of one reference as a tar archive in OCI image
// layout, with the manifest.json of older tools: containerd, podman and docker
// all import it. Equal images give equal bytes.
func WriteArchive(w io.Writer, ref name.Tag, images []Image) error {
	dir, err := os.MkdirTemp("", "tare-image-")
	if err != nil {
		return fmt.Errorf("write image archive: %w", err)
	}
	defer os.RemoveAll(dir)
	if err := writeLayout(dir, ref, images); err != nil {
		return fmt.Errorf("write image archive: %w", err)
	}
	return hint.Prefix(writeTar(w, os.DirFS(dir)), "write image archive")
}

func writeLayout(dir string, ref name.Tag, images []Image) error {
	to, err := layout.Write(dir, empty.Index)
	if err != nil {
		return err
	}
	names := layout.WithAnnotations(map[string]string{"io.containerd.image.name": ref.Name(), "org.opencontainers.image.ref.name": ref.TagStr()})
	if len(images) == 1 {
		err = to.AppendImage(images[0], names, layout.WithPlatform(v1.Platform{OS: "linux", Architecture: images[0].Arch}))
	} else if index, wrong := Index(images); wrong != nil {
		err = wrong
	} else {
		err = to.AppendIndex(index, names)
	}
	if err != nil {
		return err
	}
	manifest, err := images[0].Manifest() // manifest.json has one image per name
	if err != nil {
		return err
	}
	old := tarball.Descriptor{Config: blobPath(manifest.Config.Digest), RepoTags: []string{ref.Name()},
		Layers: lists.Map(manifest.Layers, func(l v1.Descriptor) string { return blobPath(l.Digest) })}
	b, err := json.Marshal(tarball.Manifest{old})
	if err != nil {
		return err
	}
	return to.WriteFile("manifest.json", b, 0o600)
}

func blobPath(h v1.Hash) string { return path.Join("blobs", h.Algorithm, h.Hex) }

// writeTar writes the files in their order, without their times.
func writeTar(w io.Writer, files fs.FS) error {
	archive := tar.NewWriter(w)
	err := fs.WalkDir(files, ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		content, err := fs.ReadFile(files, name)
		if err != nil {
			return err
		}
		if err := archive.WriteHeader(&tar.Header{Name: name, Typeflag: tar.TypeReg, Mode: 0o644, Size: int64(len(content)), ModTime: epoch, Format: tar.FormatUSTAR}); err != nil {
			return err
		}
		_, err = archive.Write(content)
		return err
	})
	return errors.Join(err, archive.Close())
}

// Architectures lists the architectures of images, for messages.
func Architectures(images []Image) string {
	all := lists.Map(images, func(img Image) string { return img.Arch })
	slices.Sort(all)
	return strings.Join(all, ", ")
}
