// Package parts builds the programs a cluster is made of, from their Go modules at the versions that
// test/cluster/parts/go.mod pins and go.sum checks, into a cache that every cluster of the user shares.
package parts

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"

	"golang.org/x/mod/modfile"

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
type Source struct {
	Dir      string
	versions map[string]string
}

// Find looks for the module in dir and the directories above it.
func Find(dir string) (Source, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return Source{}, fmt.Errorf("find the cluster's parts: %w", err)
	}
	for up := dir; ; up = filepath.Dir(up) {
		for _, below := range []string{"parts", "test/cluster/parts"} {
			if _, err := os.Stat(filepath.Join(up, below, "kube", "main.go")); err == nil {
				return read(filepath.Join(up, below))
			}
		}
		if up == filepath.Dir(up) {
			return Source{}, fmt.Errorf("find the cluster's parts: no test/cluster/parts in %s or above it", dir)
		}
	}
}

func read(dir string) (Source, error) {
	file := filepath.Join(dir, "go.mod")
	data, err := os.ReadFile(file)
	if err != nil {
		return Source{}, fmt.Errorf("read the cluster's pins: %w", err)
	}
	mod, err := modfile.Parse(file, data, nil)
	if err != nil {
		return Source{}, fmt.Errorf("read the cluster's pins: %w", err)
	}
	s := Source{Dir: dir, versions: map[string]string{}}
	for _, r := range mod.Require {
		s.versions[r.Mod.Path] = r.Mod.Version
	}
	return s, nil
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
func (s Source) Key() (string, error) {
	hash := sha256.New()
	fmt.Fprintln(hash, edition, runtime.GOOS, runtime.GOARCH, runtime.Version(), s.flags())
	err := filepath.WalkDir(s.Dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		data, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		relative, err := filepath.Rel(s.Dir, path)
		fmt.Fprintf(hash, "%s %d\n", filepath.ToSlash(relative), len(data))
		hash.Write(data)
		return err
	})
	if err != nil {
		return "", fmt.Errorf("hash the cluster's parts: %w", err)
	}
	return hex.EncodeToString(hash.Sum(nil))[:16], nil
}

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

// Built is a directory of the cache.
type Built struct{ Dir string }

// Program is the path of one of the programs.
func (b Built) Program(name string) string { return filepath.Join(b.Dir, "bin", name) }

// Images is the path of the archive of the cluster's own images.
func (b Built) Images() string { return filepath.Join(b.Dir, "images.tar") }

// Has reports whether the cache holds the build.
func (b Built) Has() bool {
	_, err := os.Stat(b.Images())
	return err == nil
}

// Cached is where in the cache a build of the source is, or will be.
func (s Source) Cached(cache string) (Built, error) {
	key, err := s.Key()
	return Built{Dir: filepath.Join(cache, key)}, err
}

// Build builds what is missing. The caller sees to it that one build runs at a time. The go command comes from
// the PATH; its output goes to log.
func (s Source) Build(ctx context.Context, into Built, log io.Writer) error {
	if into.Has() {
		return nil
	}
	if err := os.MkdirAll(filepath.Dir(into.Dir), 0o700); err != nil {
		return fmt.Errorf("build the cluster's parts: %w", err)
	}
	work, err := os.MkdirTemp(filepath.Dir(into.Dir), ".build-")
	if err != nil {
		return fmt.Errorf("build the cluster's parts: %w", err)
	}
	defer os.RemoveAll(work)
	if err := s.compile(ctx, filepath.Join(work, "bin"), log); err != nil {
		return err
	}
	if err := s.pack(Built{Dir: work}); err != nil {
		return err
	}
	if err := os.RemoveAll(into.Dir); err != nil {
		return fmt.Errorf("build the cluster's parts: %w", err)
	}
	return os.Rename(work, into.Dir)
}

func (s Source) compile(ctx context.Context, bin string, log io.Writer) error {
	build := exec.CommandContext(ctx, "go", "build", "-trimpath", "-ldflags", s.flags(), "-o", bin+"/", "./...")
	build.Dir, build.Stdout, build.Stderr = s.Dir, log, log
	// A workspace or flags of the user's would let other versions in than those that go.sum checks.
	build.Env = append(os.Environ(), "CGO_ENABLED=0", "GOWORK=off", "GOFLAGS=-mod=readonly -buildvcs=false")
	if err := build.Run(); err != nil {
		if errors.Is(err, exec.ErrNotFound) {
			return fmt.Errorf("build the cluster's parts: %w", err)
		}
		return fmt.Errorf("build the cluster's parts in %s: go build: %w", s.Dir, err)
	}
	for _, name := range programs {
		if err := os.Symlink("kube", filepath.Join(bin, name)); err != nil {
			return fmt.Errorf("link %s: %w", name, err)
		}
	}
	return nil
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
