package image

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/v1/remote"

	"github.com/tare-mesh/tare/internal/base/hint"
	"github.com/tare-mesh/tare/internal/base/proc"
)

// Destination is a cluster that an image can be loaded into.
type Destination struct {
	Kind string // k3d, kind, k3s, containerd
	Name string // of the cluster, or containerd's socket, empty for the tool's default
}

// importers are the commands that load an archive into a cluster's nodes, by kind.
var importers = map[string]func(where, archive string) proc.Command{
	"k3d": func(cluster, archive string) proc.Command {
		return proc.Command{Path: "k3d", Args: append([]string{"image", "import", archive}, flag("--cluster", cluster)...)}
	},
	"kind": func(cluster, archive string) proc.Command {
		return proc.Command{Path: "kind", Args: append([]string{"load", "image-archive", archive}, flag("--name", cluster)...)}
	},
	"k3s": func(_, archive string) proc.Command {
		return proc.Command{Path: "k3s", Args: []string{"ctr", "--namespace", "k8s.io", "images", "import", archive}}
	},
	"containerd": func(socket, archive string) proc.Command {
		return proc.Command{Path: "ctr", Args: append(flag("--address", socket), "--namespace", "k8s.io", "images", "import", archive)}
	},
}

func flag(name, value string) []string {
	if value == "" {
		return nil
	}
	return []string{name, value}
}

// ParseDestination reads KIND or KIND:NAME.
func ParseDestination(s string) (Destination, error) {
	kind, where, _ := strings.Cut(s, ":")
	if !slices.Contains(Destinations(), kind) {
		return Destination{}, fmt.Errorf("destination %q: not one of %s", s, strings.Join(Destinations(), ", "))
	}
	return Destination{Kind: kind, Name: where}, nil
}

// Destinations lists the kinds, without the registry.
func Destinations() []string { return []string{"k3d", "kind", "k3s", "containerd"} }

// Load runs the command of Import. It does not change the archive.
func (d Destination) Load(ctx context.Context, archive string) error {
	cmd := d.Import(archive)
	p, err := proc.Start(ctx, cmd)
	if err != nil {
		return fmt.Errorf("load image into %s: %w", d.Kind, err)
	}
	select {
	case <-p.Done():
	case <-ctx.Done():
		return errors.Join(context.Cause(ctx), p.Stop(context.WithoutCancel(ctx), 0))
	}
	return hint.Prefix(p.Wait(), "load image into %s", d.Kind)
}

// Import is the command that loads an archive.
func (d Destination) Import(archive string) proc.Command { return importers[d.Kind](d.Name, archive) }

// Push pushes the images to a registry, under one reference. Credentials come
// from the user's docker or podman configuration. It returns the reference
// with its digest, so that a cluster can pull exactly this image.
func Push(ctx context.Context, ref name.Tag, images []Image) (name.Digest, error) {
	options := []remote.Option{remote.WithContext(ctx), remote.WithAuthFromKeychain(authn.DefaultKeychain)}
	push := func() (string, error) {
		if len(images) == 1 {
			digest, err := images[0].Digest()
			if err != nil {
				return "", err
			}
			return digest.String(), remote.Write(ref, images[0], options...)
		}
		index, err := Index(images)
		if err != nil {
			return "", err
		}
		digest, err := index.Digest()
		if err != nil {
			return "", err
		}
		return digest.String(), remote.WriteIndex(ref, index, options...)
	}
	digest, err := push()
	return ref.Context().Digest(digest), hint.Prefix(err, "push image %s", ref)
}
