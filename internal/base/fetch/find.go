package fetch

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/tare-mesh/tare/internal/base/hint"
)

// Packages are Debian's packages with the programs of shipped sidecars that are not in [Known], by program.
var Packages = map[string]string{"nginx": "nginx-light", "haproxy": "haproxy", "caddy": "caddy"}

// systemDirs have programs that users without root rarely have on PATH, such as Debian's nginx and haproxy.
var systemDirs = []string{"/usr/local/sbin", "/usr/sbin"}

// Find finds a program by its name in a mesh definition: one of [Known], or any
// other by its path, its name on PATH, or in a system directory. The others need only be executable,
// and their Version is empty.
func Find(ctx context.Context, name string, opts Options) (Found, error) {
	for _, p := range Known() {
		if p.Name == name {
			return p.Find(ctx, opts)
		}
	}
	path, err := exec.LookPath(name)
	for _, dir := range systemDirs {
		if errors.Is(err, exec.ErrNotFound) && !strings.Contains(name, "/") {
			path, err = exec.LookPath(filepath.Join(dir, name))
		}
	}
	switch of, known := Packages[name]; {
	case err == nil, errors.Is(err, exec.ErrDot):
		return locate(path, "", "PATH")
	case known:
		return Found{}, hint.New(fmt.Sprintf("install it: apt install %s (Debian, Ubuntu; other systems have a package %s), or put it on PATH", of, name), "find %s: not on PATH, nor in %s", name, strings.Join(systemDirs, ", "))
	}
	return Found{}, hint.Wrap(fmt.Errorf("find %q: %w", name, err), "install it, or write its path in the mesh definition")
}

// FindVersion finds one of the [Versions] of a program: in the cache, or by a download.
func FindVersion(ctx context.Context, name, version string, opts Options) (Found, error) {
	for _, p := range Known() {
		if p.Name == name {
			p, err := p.withVersion(version)
			if err != nil {
				return Found{}, err
			}
			return p.Find(ctx, opts)
		}
	}
	return Found{}, hint.New("write program: with the path of one", "find %s %s: no version of it can be downloaded", name, version)
}

func (p Program) withVersion(version string) (Program, error) {
	p.chosen = true
	if version == p.Version && p.Builds != nil {
		return p, nil
	}
	for _, r := range p.Others {
		if r.Version == version {
			name, _, _ := strings.Cut(p.Wheel, "==")
			p.Version, p.Builds, p.Wheel = version, r.Builds, name+"=="+version
			return p, nil
		}
	}
	return p, hint.New("versions: "+strings.Join(Versions(p.Name), ", ")+"; or write program: with the path of one", "%s %.40q cannot be downloaded", p.Name, version)
}

// Versions lists the versions of a program that can be downloaded, newest first.
func Versions(name string) (all []string) {
	for _, p := range Known() {
		if p.Name != name || p.Builds == nil {
			continue
		}
		all = append(all, p.Version)
		for _, r := range p.Others {
			all = append(all, r.Version)
		}
	}
	return all
}

// instead is how another program takes the place of a download.
func (p Program) instead() string {
	if p.chosen {
		return "write program: with the path of one in the place of version:"
	}
	return "set " + p.Env + " to a program of your own, or put " + p.Name + " on PATH"
}

// At finds a program at a path or by a name on PATH, in place of the one that [Find] would choose. One of [Known] must
// print its version.
func At(ctx context.Context, name, path string) (Found, error) {
	at, err := exec.LookPath(path)
	if err != nil && !errors.Is(err, exec.ErrDot) {
		return Found{}, hint.Wrap(err, "build it, or correct the path")
	}
	for _, p := range Known() {
		if p.Name == name {
			f, err := p.try(ctx, at, "path")
			if err != nil {
				err = hint.Wrap(err, startHint(err, "correct the path, or the program"))
			}
			return f, err
		}
	}
	return locate(at, "", "path")
}

// Known lists the programs with a pinned source.
func Known() []Program { return []Program{Envoy(), traefik(), consul()} }
