// Command release describes the archives of a release: SBOMs, provenance, and manifests for Homebrew and krew. It also
// makes the container images. build.sh calls it.
package main

import (
	"context"
	"crypto/sha256"
	"debug/buildinfo"
	"encoding/hex"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

const (
	repository = "https://github.com/tare-mesh/tare"
	title      = "tare"
	license    = "Apache-2.0"
	summary    = "what a service mesh, a sidecar, a proxy or an agent adds to a program"
)

// train is one release, built into a directory.
type train struct {
	Version  string // v0.1.0, or the commit of a snapshot
	Archives []archive
	out      string
	commit   string    // full SHA-1
	time     time.Time // of the commit: a second build has the same bytes
}

// archive is one target with its programs.
type archive struct {
	OS, Arch string
	File     string // name in the directory of the release
	SHA256   string
	programs []program
}

// program is a built executable.
type program struct {
	name, path, sha256 string
	info               *buildinfo.BuildInfo
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "release:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context) error {
	var t train
	flag.StringVar(&t.out, "out", "", "`directory` with the archives")
	flag.StringVar(&t.Version, "version", "", "version of the release")
	flag.StringVar(&t.commit, "commit", "", "commit of the sources")
	registry := flag.String("push", "", "only push the images, to `REGISTRY/NAMESPACE`")
	programs := flag.String("programs", "", "`directory` with a directory OS-ARCH of programs for each archive")
	wheel := flag.String("wheel", "", "version of the Python wheels")
	npm := flag.String("npm", "", "version of the packages of npm")
	seconds := flag.Int64("time", 0, "time of the commit, in Unix seconds")
	flag.Parse()
	t.time = time.Unix(*seconds, 0).UTC()
	if err := t.read(*programs); err != nil {
		return err
	}
	if *registry != "" {
		return t.pushImages(ctx, *registry)
	}
	wheels, npms := func() error { return t.wheels(*wheel) }, func() error { return t.npm(*npm) }
	for _, step := range []func() error{t.sboms, t.archiveImages, t.packageManagers, wheels, npms, t.provenance} {
		if err := step(); err != nil {
			return err
		}
	}
	return nil
}

// Number is the version without its leading v, as file names have it.
func (t *train) Number() string { return strings.TrimPrefix(t.Version, "v") }

// URL is where a file of the release is downloaded.
func (t *train) URL(file string) string {
	return repository + "/releases/download/" + t.Version + "/" + file
}

// read finds the programs and the archive of each target.
func (t *train) read(programs string) error {
	dirs, err := os.ReadDir(programs)
	if err != nil {
		return err
	}
	for _, dir := range dirs {
		system, arch, ok := strings.Cut(dir.Name(), "-")
		if !ok {
			continue
		}
		a := archive{OS: system, Arch: arch, File: fmt.Sprintf("%s_%s_%s_%s.tar.gz", title, t.Number(), system, arch)}
		if a.SHA256, err = digest(filepath.Join(t.out, a.File)); err != nil {
			return err
		}
		paths, err := filepath.Glob(filepath.Join(programs, dir.Name(), title+"*"))
		if err != nil {
			return err
		}
		for _, path := range paths {
			p := program{name: filepath.Base(path), path: path}
			if p.sha256, err = digest(path); err != nil {
				return err
			}
			if p.info, err = buildinfo.ReadFile(path); err != nil {
				return fmt.Errorf("%s: %w", path, err)
			}
			a.programs = append(a.programs, p)
		}
		if len(a.programs) == 0 {
			return fmt.Errorf("no programs for %s/%s", system, arch)
		}
		t.Archives = append(t.Archives, a)
	}
	if len(t.Archives) == 0 {
		return fmt.Errorf("%s: no programs", programs)
	}
	return nil
}

// names of the programs, sorted.
func (a archive) names() []string {
	var names []string
	for _, p := range a.programs {
		names = append(names, p.name)
	}
	slices.Sort(names)
	return names
}

// digest is the SHA-256 of a file, in hexadecimal.
func digest(path string) (string, error) {
	b, err := os.ReadFile(path)
	if err != nil {
		return "", err
	}
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:]), nil
}

// write puts a file into the directory of the release.
func (t *train) write(name string, content []byte) error {
	return os.WriteFile(filepath.Join(t.out, name), content, 0o644)
}
