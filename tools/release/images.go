package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/tare-mesh/tare/internal/kube/image"
)

// images writes an OCI archive of tare and one of tare-agent, each with all architectures of Linux, and pushes them if
// a registry is given. tare's image has all programs: tare starts the others.
func (t *train) images(ctx context.Context) error {
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
		if err := t.image(ctx, entry.name, images); err != nil {
			return err
		}
	}
	return nil
}

func (t *train) image(ctx context.Context, name string, images []image.Image) error {
	at := name
	if t.push != "" {
		at = t.push + "/" + name
	}
	ref, err := image.Reference(at + ":" + strings.ReplaceAll(t.Version, "+", "-")) // a tag has no plus sign
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
	if t.push != "" {
		digest, err := image.Push(ctx, ref, images)
		if err != nil {
			return err
		}
		fmt.Fprintln(os.Stderr, digest)
	}
	return f.Close()
}
