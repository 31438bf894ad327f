// Package image packs container images from files, without Docker and without a registry.
package image

import (
	"archive/tar"
	"bytes"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path"
	"runtime"
	"slices"
	"strings"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/static"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// registry is a name that cannot be resolved (RFC 6761), so that no such image is ever pulled.
const registry = "tare.test"

// Hub is a registry of which images are named for that only this machine has them, with a folder for each owner.
func Hub(folder string) string { return registry + "/" + folder }

// Reference is an image's name and tag as pods give it.
func Reference(name, tag string) string { return registry + "/" + name + ":" + tag }

// Image is one layer of files and a command.
type Image struct {
	Reference  string
	Entrypoint []string
	User       string // "uid:gid", empty for root
	Files      []File
}

// File is a regular file copied from the machine, or a symbolic link.
type File struct {
	Path string // in the image, absolute
	From string // on this machine, empty for a link
	Link string // what the link points to
}

// Write writes the images into one archive in Docker's format, which containerd imports.
func Write(archive string, images ...Image) error {
	all := map[name.Tag]v1.Image{}
	for _, i := range images {
		tag, err := name.NewTag(i.Reference, name.StrictValidation)
		if err != nil {
			return fmt.Errorf("pack image %s: %w", i.Reference, err)
		}
		if all[tag], err = i.build(); err != nil {
			return fmt.Errorf("pack image %s: %w", i.Reference, err)
		}
	}
	if err := tarball.MultiWriteToFile(archive, all); err != nil {
		return fmt.Errorf("write image archive: %w", err)
	}
	return nil
}

func (i Image) build() (v1.Image, error) {
	data, err := i.layer()
	if err != nil {
		return nil, err
	}
	// Uncompressed: the archive is read on this machine, and soon.
	img, err := mutate.AppendLayers(empty.Image, static.NewLayer(data, types.DockerUncompressedLayer))
	if err != nil {
		return nil, err
	}
	config, err := img.ConfigFile()
	if err != nil {
		return nil, err
	}
	config = config.DeepCopy()
	config.OS, config.Architecture = "linux", runtime.GOARCH
	config.Config.Entrypoint, config.Config.User = i.Entrypoint, i.User
	config.Config.Env = []string{"PATH=/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"}
	config.Config.WorkingDir = "/"
	return mutate.ConfigFile(img, config)
}

// layer is a tar of the files with the directories above them and a /tmp, in order of their names and without
// times, so that the same files give the same digest.
func (i Image) layer() ([]byte, error) {
	entries := map[string]File{"tmp": {}}
	for _, f := range i.Files {
		entry := strings.TrimPrefix(path.Clean(f.Path), "/")
		entries[entry] = f
		for dir := path.Dir(entry); dir != "."; dir = path.Dir(dir) {
			entries[dir] = File{}
		}
	}
	names := slices.Sorted(maps.Keys(entries))
	var buffer bytes.Buffer
	w := tar.NewWriter(&buffer)
	for _, entry := range names {
		if err := add(w, entry, entries[entry]); err != nil {
			return nil, err
		}
	}
	if err := w.Close(); err != nil {
		return nil, err
	}
	return buffer.Bytes(), nil
}

func add(w *tar.Writer, entry string, f File) error {
	switch {
	case f.From != "":
		return addFile(w, entry, f.From)
	case f.Link != "":
		return w.WriteHeader(&tar.Header{Typeflag: tar.TypeSymlink, Name: entry, Linkname: f.Link, Mode: 0o777})
	case entry == "tmp":
		return w.WriteHeader(&tar.Header{Typeflag: tar.TypeDir, Name: entry + "/", Mode: 0o1777})
	default:
		return w.WriteHeader(&tar.Header{Typeflag: tar.TypeDir, Name: entry + "/", Mode: 0o755})
	}
}

// mode gives every user in the container the owner's read and execute permissions, independent of the umask.
func mode(m fs.FileMode) int64 {
	owner := int64(m.Perm() & 0o700)
	return owner | owner&0o500>>3 | owner&0o500>>6
}

func addFile(w *tar.Writer, entry, from string) error {
	file, err := os.Open(from)
	if err != nil {
		return err
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil {
		return err
	}
	header := &tar.Header{Typeflag: tar.TypeReg, Name: entry, Size: info.Size(), Mode: mode(info.Mode())}
	if err := w.WriteHeader(header); err != nil {
		return err
	}
	_, err = io.Copy(w, file)
	return err
}
