// Package parts builds the programs of a cluster, and the meshes for it, from their Go modules.
// The go.mod files of test/cluster/parts and its neighbours pin the versions, and go.sum checks them. All clusters
// of a user share the cache.
package parts

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/tare-mesh/tare/test/cluster/internal/image"
)

// programs are the names that the kube program is linked to.
var programs = []string{"etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler", "kubelet", "kube-proxy", "kubectl"}

// images are the container images the cluster itself runs: a program each, tagged with the version of a module.
var images = []struct{ name, module string }{
	{"pause", kubernetes},
	{"coredns", "github.com/coredns/coredns"},
	{"metrics-server", "sigs.k8s.io/metrics-server"},
}

const kubernetes = "k8s.io/kubernetes"

// edition changes when this package makes something else of the same sources.
const edition = "1"

// Source is the module that pins the parts.
type Source struct{ module }

// Find returns the module in dir or a directory above it.
func Find(dir string) (Source, error) {
	m, err := find(dir, "parts", filepath.Join("kube", "main.go"))
	return Source{m}, err
}

// Kubernetes is its version, as v1.36.3.
func (s Source) Kubernetes() string { return s.versions[kubernetes] }

// Image is the reference of one of the cluster's own images.
func (s Source) Image(name string) string {
	for _, i := range images {
		if i.name == name {
			return image.Reference(name, strings.TrimPrefix(s.versions[i.module], "v"))
		}
	}
	return image.Reference(name, "unknown")
}

// Key names what a build of the source gives: it changes with any file of the module, with the toolchain and
// with the build's own recipe.
func (s Source) Key() (string, error) { return s.key(s.flags()) }

// flags stamps the version in, as Kubernetes' own build does: clients and controllers ask the server for it.
func (s Source) flags() string {
	major, minor, _ := strings.Cut(strings.TrimPrefix(s.Kubernetes(), "v"), ".")
	minor, _, _ = strings.Cut(minor, ".")
	flags := "-s -w"
	for _, pkg := range []string{"k8s.io/component-base/version", "k8s.io/client-go/pkg/version"} {
		flags += fmt.Sprintf(" -X %[1]s.gitVersion=%[2]s -X %[1]s.gitMajor=%[3]s -X %[1]s.gitMinor=%[4]s", pkg, s.Kubernetes(), major, minor)
	}
	return flags
}

// Cached is where in the cache a build of the source is, or will be.
func (s Source) Cached(cache string) (Built, error) {
	key, err := s.Key()
	return Built{Dir: filepath.Join(cache, key)}, err
}

// Build builds missing programs. The caller ensures that one build runs at a time. The go command comes from
// the PATH, and its output goes to log.
func (s Source) Build(ctx context.Context, into Built, log io.Writer) error {
	return into.fill(func(work Built) error {
		if err := s.compile(ctx, filepath.Join(work.Dir, "bin"), s.flags(), log, "./..."); err != nil {
			return err
		}
		for _, name := range programs {
			if err := os.Symlink("kube", work.Program(name)); err != nil {
				return fmt.Errorf("link %s: %w", name, err)
			}
		}
		return s.pack(work)
	})
}

func (s Source) pack(b Built) error {
	var all []image.Image
	for _, i := range images {
		all = append(all, image.Image{
			Reference: s.Image(i.name), Entrypoint: []string{"/" + i.name},
			Files: []image.File{{Path: "/" + i.name, From: b.Program(i.name)}},
		})
	}
	return image.Write(b.Images(), all...)
}
