package image

import (
	"archive/tar"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/types"

	"github.com/tare-mesh/tare/internal/base/hint"
)

// Reference is the full name of an image. A name without a registry belongs to
// localhost, not to a public registry, so that a missing image is never pulled
// from there by mistake.
func Reference(s string) (name.Tag, error) {
	if strings.Contains(s, "://") {
		return name.Tag{}, hint.New("write registry.example/name:tag", "image reference %q: an image has no URL scheme", s)
	}
	ref, err := name.NewTag(s, name.WithDefaultRegistry("localhost"), name.WeakValidation)
	if err != nil {
		return name.Tag{}, fmt.Errorf("image reference %q: %w", s, err)
	}
	return ref, nil
}

// WriteArchive writes images of one reference as a tar archive in OCI image
// layout, with the manifest.json of older tools: containerd, podman and docker
// all import it. Equal images give equal bytes.
func WriteArchive(w io.Writer, ref name.Tag, images []Image) error {
	a := archive{tar: tar.NewWriter(w), written: map[string]bool{}}
	if err := a.write(ref, images); err != nil {
		return fmt.Errorf("write image archive: %w", err)
	}
	return nil
}

type archive struct {
	tar     *tar.Writer
	written map[string]bool // blobs
}

// legacy is one entry of manifest.json.
type legacy struct {
	Config   string
	RepoTags []string
	Layers   []string
}

func (a *archive) write(ref name.Tag, images []Image) error {
	names := map[string]string{"io.containerd.image.name": ref.Name(), "org.opencontainers.image.ref.name": ref.TagStr()}
	root := v1.IndexManifest{SchemaVersion: 2, MediaType: types.OCIImageIndex}
	var old []legacy
	var each []v1.Descriptor
	for _, img := range images {
		d, entry, err := a.image(img)
		if err != nil {
			return err
		}
		entry.RepoTags = []string{ref.Name()}
		each, old = append(each, d), append(old, entry)
	}
	if len(images) == 1 {
		each[0].Annotations = names
		root.Manifests = each
	} else {
		index, err := Index(images)
		if err != nil {
			return err
		}
		raw, err := index.RawManifest()
		if err != nil {
			return err
		}
		digest, err := index.Digest()
		if err != nil {
			return err
		}
		if err := a.blob(digest, raw); err != nil {
			return err
		}
		root.Manifests = []v1.Descriptor{{MediaType: types.OCIImageIndex, Digest: digest, Size: int64(len(raw)), Annotations: names}}
		old = old[:1] // it has one image per name
	}
	for _, f := range []struct {
		name    string
		content any
	}{
		{"oci-layout", map[string]string{"imageLayoutVersion": "1.0.0"}}, {"index.json", root}, {"manifest.json", old},
	} {
		b, err := json.Marshal(f.content)
		if err != nil {
			return err
		}
		if err := a.file(f.name, b); err != nil {
			return err
		}
	}
	return a.tar.Close()
}

// image writes the blobs of one image.
func (a *archive) image(img Image) (d v1.Descriptor, entry legacy, err error) {
	manifest, err := img.Manifest()
	if err != nil {
		return d, entry, err
	}
	layers, err := img.Layers()
	if err != nil {
		return d, entry, err
	}
	for i, l := range layers {
		r, err := l.Compressed()
		if err != nil {
			return d, entry, err
		}
		b, err := io.ReadAll(r)
		if err != nil {
			return d, entry, err
		}
		if err := a.blob(manifest.Layers[i].Digest, b); err != nil {
			return d, entry, err
		}
		entry.Layers = append(entry.Layers, blobPath(manifest.Layers[i].Digest))
	}
	config, err := img.RawConfigFile()
	if err != nil {
		return d, entry, err
	}
	if err := a.blob(manifest.Config.Digest, config); err != nil {
		return d, entry, err
	}
	entry.Config = blobPath(manifest.Config.Digest)
	raw, err := img.RawManifest()
	if err != nil {
		return d, entry, err
	}
	digest, err := img.Digest()
	if err != nil {
		return d, entry, err
	}
	return v1.Descriptor{MediaType: manifest.MediaType, Digest: digest, Size: int64(len(raw)),
		Platform: &v1.Platform{OS: "linux", Architecture: img.Arch}}, entry, a.blob(digest, raw)
}

func (a *archive) blob(h v1.Hash, content []byte) error {
	p := blobPath(h)
	if a.written[p] {
		return nil
	}
	a.written[p] = true
	return a.file(p, content)
}

func blobPath(h v1.Hash) string { return "blobs/" + h.Algorithm + "/" + h.Hex }

func (a *archive) file(name string, content []byte) error {
	err := a.tar.WriteHeader(&tar.Header{Name: name, Typeflag: tar.TypeReg, Mode: 0o644, Size: int64(len(content)), ModTime: epoch, Format: tar.FormatUSTAR})
	if err == nil {
		_, err = a.tar.Write(content)
	}
	return err
}

// Architectures lists the architectures of images, for messages.
func Architectures(images []Image) string {
	var all []string
	for _, img := range images {
		all = append(all, img.Arch)
	}
	slices.Sort(all)
	return strings.Join(all, ", ")
}
