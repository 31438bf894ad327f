// Package companion finds tare's other programs: beside this one, in PATH, or built by the go command.
package companion

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime/debug"
	"strings"
	"time"

	"github.com/tare-mesh/tare/internal/base/hint"
	"github.com/tare-mesh/tare/internal/base/regular"
)

const module = "github.com/tare-mesh/tare"

// packageOf is the package of a program and its module: tare-kube has one of its own.
func packageOf(name string) (pkg, of string) {
	of = module
	if name == Kube.Name {
		of += "/kube"
	}
	return of + "/cmd/" + name, of
}

// Path returns the path of a program: beside this one, else in PATH. If `go install` built this one, the program that
// [Install] builds comes first, and others count only in the same version: each program was installed at a time of its
// own. Path returns the name without any, and if another user could have changed the built one.
func Path(name string) string {
	v, installed := version()
	if !installed {
		return found(name, func(string) bool { return true })
	}
	built, ok := place(name)
	ok = ok && (!executable(built) || owned(built) == nil)
	if ok && executable(built) {
		return built
	}
	path := found(name, func(path string) bool { return versionOf(path) == v })
	if ok && path == name {
		return built
	}
	return path
}

// found returns the path of a program beside this one, or in PATH, that is fit. Without any it is the name.
func found(name string, fit func(path string) bool) string {
	if self, err := os.Executable(); err == nil {
		// kubectl's plugins and Homebrew's programs are links to a directory with all programs.
		if to, err := filepath.EvalSymlinks(self); err == nil {
			self = to
		}
		if beside := filepath.Join(filepath.Dir(self), name); executable(beside) && fit(beside) {
			return beside
		}
	}
	if path, err := exec.LookPath(name); err == nil && fit(path) {
		return path
	}
	return name
}

// versionWithin bounds the time of a program to print its version.
const versionWithin = 10 * time.Second

// versionOf is the last word that a program prints for --version, or "".
func versionOf(path string) string {
	ctx, cancel := context.WithTimeout(context.Background(), versionWithin)
	defer cancel()
	out, err := exec.CommandContext(ctx, path, "--version").Output()
	words := strings.Fields(string(out))
	if err != nil || len(words) == 0 {
		return ""
	}
	return words[len(words)-1]
}

// Install builds a program that [Path] does not find, if `go install` built this one: from the same version, once. note
// receives a line before the build, which takes a minute. The build has a module of its own, which requires the same version
// of all of tare's: `go install` refuses a module with a replacement, and tare-kube's has one.
func Install(ctx context.Context, name string, note func(string)) error {
	path, ok := place(name)
	if at := Path(name); !ok || at != path && at != name {
		return nil
	}
	if executable(path) {
		return owned(path)
	}
	v, _ := version()
	command, err := exec.LookPath("go")
	if err != nil {
		return hint.New("put `go` into PATH, or use all programs of one release", "%s %s is neither beside tare nor in PATH, and the go command, which builds it, is not in PATH", name, v)
	}
	note("building " + name + " " + v + " with the go command, once")
	dir := filepath.Dir(path)
	if err := os.MkdirAll(dir, 0o750); err != nil {
		return fmt.Errorf("install %s: %w", name, err)
	}
	if err := owned(dir); err != nil {
		return err
	}
	temporary, err := os.MkdirTemp(dir, ".install-")
	if err != nil {
		return fmt.Errorf("install %s: %w", name, err)
	}
	defer os.RemoveAll(temporary)
	pkg, of := packageOf(name)
	requirements := fmt.Sprintf("module build\n\ngo 1.26\n\nrequire %s %s\n", module, v)
	if of != module {
		requirements += fmt.Sprintf("\nrequire %s %s\n", of, v)
	}
	if err := os.WriteFile(filepath.Join(temporary, "go.mod"), []byte(requirements), 0o600); err != nil {
		return fmt.Errorf("install %s: %w", name, err)
	}
	built := filepath.Join(temporary, name)
	build := exec.CommandContext(ctx, command, "build", "-mod=mod", "-ldflags=-X "+module+"/internal/cli/console.buildVersion="+v, "-o", built, pkg)
	build.Dir = temporary
	build.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS=", "GOARCH=", "GOFLAGS=", "GOWORK=off")
	if out, err := build.CombinedOutput(); err != nil {
		return hint.New("use all programs of one release", "build %s: %w\n%s", name, errors.Join(context.Cause(ctx), err), out)
	}
	if err := os.Rename(built, path); err != nil {
		return fmt.Errorf("install %s: %w", name, err)
	}
	return nil
}

// place is where Install puts a program of this version.
func place(name string) (string, bool) {
	v, ok := version()
	cache, err := os.UserCacheDir()
	if !ok || err != nil {
		return "", false
	}
	return filepath.Join(cache, "tare", "programs", v, name), true
}

// buildInfo is replaced in tests: a test binary has no version.
var buildInfo = debug.ReadBuildInfo

// version returns the module's version, if `go install` or [Install] built this program from it. A build in a work tree has
// no checksum.
func version() (string, bool) {
	info, ok := buildInfo()
	if !ok {
		return "", false
	}
	for _, m := range append(info.Deps, &info.Main) {
		if m.Path == module && m.Sum != "" && m.Replace == nil {
			return m.Version, true
		}
	}
	return "", false
}

func executable(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.Mode().IsRegular() && info.Mode()&0o111 != 0
}

// owned returns an error with a hint if another user could have put a program or directory there.
func owned(path string) error {
	return hint.Wrap(regular.Owned(path), "remove it, or set XDG_CACHE_HOME to a directory of your own")
}
