package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/google/go-containerregistry/pkg/name"

	"github.com/tare-mesh/tare/internal/base/image"
)

// images gives the images of tare and of tare-agent to use, each for all architectures of Linux. tare's image has all
// programs: tare starts the others.
func (t *train) images(use func(name string, images []image.Image) error) error {
	for _, entry := range []struct {
		name    string
		contain func(program string) bool
	}{
		{title, func(string) bool { return true }},
		{"tare-agent", func(name string) bool { return name == "tare-agent" }},
	} {
		var images []image.Image
		for _, a := range t.Archives {
			if a.OS != "linux" {
				continue
			}
			var programs []image.Program
			for _, p := range a.programs {
				one := image.Program{Name: p.name, Path: p.path}
				switch {
				case p.name == entry.name: // the first is the entry point
					programs = append([]image.Program{one}, programs...)
				case entry.contain(p.name):
					programs = append(programs, one)
				}
			}
			img, err := image.Build(programs, map[string]string{
				"org.opencontainers.image.title": entry.name, "org.opencontainers.image.version": t.Version,
				"org.opencontainers.image.source": repository, "org.opencontainers.image.revision": t.commit, "org.opencontainers.image.licenses": license,
			})
			if err != nil {
				return fmt.Errorf("image of %s for %s: %w", entry.name, a.Arch, err)
			}
			images = append(images, img)
		}
		if len(images) == 0 {
			continue
		}
		if err := use(entry.name, images); err != nil {
			return err
		}
	}
	return nil
}

// archiveImages writes an OCI archive of each image.
func (t *train) archiveImages() error {
	return t.images(func(name string, images []image.Image) error {
		ref, err := t.reference(name)
		if err != nil {
			return err
		}
		f, err := os.Create(filepath.Join(t.out, name+"_"+t.Number()+"_image.tar"))
		if err != nil {
			return err
		}
		defer f.Close()
		if err := image.WriteArchive(f, ref, images); err != nil {
			return err
		}
		return f.Close()
	})
}

// pushImages pushes the same images to a registry, and prints their digests.
func (t *train) pushImages(ctx context.Context, registry string) error {
	return t.images(func(name string, images []image.Image) error {
		ref, err := t.reference(registry + "/" + name)
		if err != nil {
			return err
		}
		digest, err := image.Push(ctx, ref, images)
		if err != nil {
			return err
		}
		fmt.Fprintln(os.Stderr, digest)
		return nil
	})
}

// reference is an image's name with the version as its tag, which has no plus sign.
func (t *train) reference(of string) (name.Tag, error) {
	return image.Reference(of + ":" + strings.ReplaceAll(t.Version, "+", "-"))
}
