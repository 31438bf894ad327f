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

	"golang.org/x/mod/modfile"
)

// module is a Go module whose go.mod pins the programs' versions and whose go.sum checks them.
type module struct {
	Dir      string
	versions map[string]string
}

// find returns the module of this name in dir or a directory above it, recognised by one of its files.
func find(dir, name, file string) (module, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return module{}, fmt.Errorf("find the cluster's %s: %w", name, err)
	}
	for up := dir; ; up = filepath.Dir(up) {
		for _, below := range []string{name, "test/cluster/" + name} {
			if _, err := os.Stat(filepath.Join(up, below, file)); err == nil {
				return read(filepath.Join(up, below))
			}
		}
		if up == filepath.Dir(up) {
			return module{}, fmt.Errorf("find the cluster's %[1]s: no test/cluster/%[1]s in %[2]s or above it", name, dir)
		}
	}
}

func read(dir string) (module, error) {
	file := filepath.Join(dir, "go.mod")
	data, err := os.ReadFile(file)
	if err != nil {
		return module{}, fmt.Errorf("read the cluster's pins: %w", err)
	}
	mod, err := modfile.Parse(file, data, nil)
	if err != nil {
		return module{}, fmt.Errorf("read the cluster's pins: %w", err)
	}
	m := module{Dir: dir, versions: map[string]string{}}
	for _, r := range mod.Require {
		m.versions[r.Mod.Path] = r.Mod.Version
	}
	return m, nil
}

// key names what a build of the module gives: it changes with any file of the module, with the toolchain and with
// the build's own recipe.
func (m module) key(recipe ...any) (string, error) {
	hash := sha256.New()
	fmt.Fprintln(hash, append([]any{edition, runtime.GOOS, runtime.GOARCH, runtime.Version()}, recipe...)...)
	err := filepath.WalkDir(m.Dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		data, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		relative, err := filepath.Rel(m.Dir, path)
		fmt.Fprintf(hash, "%s %d\n", filepath.ToSlash(relative), len(data))
		hash.Write(data)
		return err
	})
	if err != nil {
		return "", fmt.Errorf("hash %s: %w", m.Dir, err)
	}
	return hex.EncodeToString(hash.Sum(nil))[:16], nil
}

// compile builds packages of the module into bin. The go command comes from the PATH, and its output goes to log.
func (m module) compile(ctx context.Context, bin, flags string, log io.Writer, packages ...string) error {
	// Symbols for debuggers are a tenth of the compiler's time, and the linker would drop them.
	build := m.command(ctx, append([]string{"build", "-trimpath", "-gcflags=all=-dwarf=false", "-ldflags", flags, "-o", bin + "/"}, packages...)...)
	build.Stdout, build.Stderr = log, log
	if err := build.Run(); err != nil {
		if errors.Is(err, exec.ErrNotFound) {
			return fmt.Errorf("build the cluster's parts: %w", err)
		}
		return fmt.Errorf("build the cluster's parts in %s: go build: %w", m.Dir, err)
	}
	return nil
}

func (m module) command(ctx context.Context, arguments ...string) *exec.Cmd {
	command := exec.CommandContext(ctx, "go", arguments...)
	command.Dir = m.Dir
	// A user's workspace or flags could select versions that go.sum does not check.
	command.Env = append(os.Environ(), "CGO_ENABLED=0", "GOWORK=off", "GOFLAGS=-mod=readonly -buildvcs=false")
	return command
}

// Built is a directory of the cache.
type Built struct{ Dir string }

// Program is the path of one of the programs.
func (b Built) Program(name string) string { return filepath.Join(b.Dir, "bin", name) }

// Images is the path of the archive of the images made of the programs.
func (b Built) Images() string { return filepath.Join(b.Dir, "images.tar") }

// Has reports whether the cache holds the build.
func (b Built) Has() bool {
	_, err := os.Stat(b.Images())
	return err == nil
}

// fill makes the directory through a temporary one, so that it exists whole or not at all. The caller ensures that
// one build runs at a time.
func (b Built) fill(build func(work Built) error) error {
	if b.Has() {
		return nil
	}
	if err := os.MkdirAll(filepath.Dir(b.Dir), 0o700); err != nil {
		return fmt.Errorf("build the cluster's parts: %w", err)
	}
	work, err := os.MkdirTemp(filepath.Dir(b.Dir), ".build-")
	if err != nil {
		return fmt.Errorf("build the cluster's parts: %w", err)
	}
	defer os.RemoveAll(work)
	if err := build(Built{Dir: work}); err != nil {
		return err
	}
	if err := os.RemoveAll(b.Dir); err != nil {
		return fmt.Errorf("build the cluster's parts: %w", err)
	}
	return os.Rename(work, b.Dir)
}
