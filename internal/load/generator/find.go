package generator

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"
)

// Finder is a generator whose program may be on this machine or not.
type Finder interface {
	// Found says where the program is and which version. The error, where it is
	// missing or does not run, wraps exec.ErrNotFound or says what it did, and
	// has a hint.
	Found(ctx context.Context) (Found, error)
}

// Found is a generator's program on this machine.
type Found struct {
	Path    string
	Version string // as the program says it; "unknown" for one that says none
}

// GeneratorsDir is where `make generators` puts the programs that can be had:
// one directory for each, <name>-<version>/bin. TARE_GENERATORS overrides it.
func GeneratorsDir() string {
	if dir := os.Getenv("TARE_GENERATORS"); dir != "" {
		return dir
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		return ""
	}
	return filepath.Join(cache, "tare", "generators")
}

// Others are the generators that are not tare's own, each with the program in
// dir where there is one, else by its name on PATH.
func Others(dir string) []Generator {
	at := func(name string) program { return program{Path: locate(dir, name)} }
	return []Generator{
		Oha{program: at("oha")},
		Wrk{at("wrk")},
		Wrk2{at("wrk2")},
		Vegeta{at("vegeta")},
		Fortio{at("fortio")},
		H2load{at("h2load")},
		Nighthawk{at("nighthawk_client")},
		K6{at("k6")},
	}
}

// locate finds a program in dir; of several versions the highest.
func locate(dir, name string) string {
	if dir == "" {
		return name
	}
	found, _ := filepath.Glob(filepath.Join(dir, name+"-*", "bin", name)) // the pattern is well formed
	if len(found) == 0 {
		return name
	}
	return slices.MaxFunc(found, func(a, b string) int { return compareVersions(a, b) })
}

var digits = regexp.MustCompile(`[0-9]+`)

// compareVersions orders paths by the numbers in them, so that 1.16 follows 1.9.
func compareVersions(a, b string) int {
	x, y := digits.FindAllString(a, -1), digits.FindAllString(b, -1)
	for i := range min(len(x), len(y)) {
		m, n := strings.TrimLeft(x[i], "0"), strings.TrimLeft(y[i], "0")
		if c := cmp.Or(cmp.Compare(len(m), len(n)), cmp.Compare(m, n)); c != 0 {
			return c
		}
	}
	return cmp.Compare(len(x), len(y))
}

// versions is how each program says its version: the argument that asks for it
// and where it stands in what comes out. Some exit with an error when asked.
var versions = map[string]struct {
	arg    string
	banner *regexp.Regexp
}{
	"oha":              {"--version", regexp.MustCompile(`oha ([0-9][^\s]*)`)},
	"wrk":              {"--version", regexp.MustCompile(`wrk (?:debian/)?([0-9][^\s]*)`)},
	"wrk2":             {"--version", regexp.MustCompile(`wrk ([0-9][^\s]*)`)},
	"vegeta":           {"-version", regexp.MustCompile(`Version: v?([0-9][^\s]*)`)},
	"fortio":           {"version", regexp.MustCompile(`^v?([0-9][^\s]*)`)},
	"h2load":           {"--version", regexp.MustCompile(`nghttp2/([0-9][^\s]*)`)},
	"nighthawk_client": {"--version", regexp.MustCompile(`([0-9]+\.[0-9]+[^\s]*)`)},
	"k6":               {"version", regexp.MustCompile(`k6(?:\.exe)? v([0-9][^\s]*)`)},
}

// findTimeout bounds asking a program for its version.
const findTimeout = 10 * time.Second

func (g program) found(ctx context.Context, name string) (Found, error) {
	path, err := exec.LookPath(cmp.Or(g.Path, name))
	if err != nil {
		return Found{}, missing{name, err}
	}
	ctx, cancel := context.WithTimeout(ctx, findTimeout)
	defer cancel()
	ask := versions[name]
	var args []string
	if ask.arg != "" {
		args = append(args, ask.arg)
	}
	out, err := exec.CommandContext(ctx, path, args...).CombinedOutput()
	m := ask.banner.FindSubmatch(out)
	if m == nil {
		return Found{}, missing{name, fmt.Errorf("run %s: it does not say that it is %s: %.80q", path, name, out)}
	}
	if exit := (*exec.ExitError)(nil); err != nil && !errors.As(err, &exit) {
		return Found{}, missing{name, fmt.Errorf("run %s: %w", path, err)}
	}
	// wrk2 calls itself wrk; the flag for the rate tells them apart.
	if rated := strings.Contains(string(out), "--rate"); name == "wrk" && rated || name == "wrk2" && !rated {
		return Found{}, missing{name, fmt.Errorf("run %s: it is not %s but its namesake", path, name)}
	}
	return Found{Path: path, Version: cmp.Or(string(m[1]), "unknown")}, nil
}

// elsewhere is a generator whose program is not on this machine.
type elsewhere struct {
	Foreign
	version string
}

// Elsewhere is g with its program in another place, of a version; it is not looked for here.
func Elsewhere(g Foreign, version string) Generator { return elsewhere{g, version} }

// Found implements [Finder].
func (e elsewhere) Found(context.Context) (Found, error) { return Found{Version: e.version}, nil }

// missing says that a generator is not there.
type missing struct {
	name string
	err  error
}

func (m missing) Error() string { return fmt.Sprintf("find %s: %v", m.name, m.err) }
func (m missing) Unwrap() error { return m.err }

// packages are those of Debian that have a generator's program.
var packages = map[string]string{"wrk": "wrk", "h2load": "nghttp2-client"}

// Hint says how to come by the generators.
func (m missing) Hint() string {
	if p := packages[m.name]; p != "" {
		return "run make generators, or install the package " + p
	}
	if m.name == "wrk2" || m.name == "nighthawk_client" {
		return "build " + m.name + " from its source and put it on PATH, or into " + filepath.Join(GeneratorsDir(), m.name+"-VERSION", "bin")
	}
	return "run make generators, or put " + m.name + " on PATH"
}

// Sought is what a look for one generator's program came to.
type Sought struct {
	Name  string // of the generator
	Found Found
	Err   error // it is not there: see [Finder]
}

// FindAll looks for the programs of generators, all at the same time, and
// answers in their order. Tare's own has none to look for and is left out.
func FindAll(ctx context.Context, generators []Generator) []Sought {
	var sought []Sought
	var finders []Finder
	for _, g := range generators {
		if f, ok := g.(Finder); ok {
			sought, finders = append(sought, Sought{Name: g.Name()}), append(finders, f)
		}
	}
	var all sync.WaitGroup
	for i, f := range finders {
		all.Go(func() { sought[i].Found, sought[i].Err = f.Found(ctx) })
	}
	all.Wait()
	return sought
}

// Missing joins the errors of those that are not there; nil: all are.
func Missing(sought []Sought) error {
	var errs []error
	for _, s := range sought {
		errs = append(errs, s.Err)
	}
	return errors.Join(errs...)
}

// Found implements [Finder].
func (g Oha) Found(ctx context.Context) (Found, error) { return g.found(ctx, "oha") }

// Found implements [Finder].
func (g Wrk) Found(ctx context.Context) (Found, error) { return g.found(ctx, "wrk") }

// Found implements [Finder].
func (g Wrk2) Found(ctx context.Context) (Found, error) { return g.found(ctx, "wrk2") }

// Found implements [Finder].
func (g Vegeta) Found(ctx context.Context) (Found, error) { return g.found(ctx, "vegeta") }

// Found implements [Finder].
func (g Fortio) Found(ctx context.Context) (Found, error) { return g.found(ctx, "fortio") }

// Found implements [Finder].
func (g H2load) Found(ctx context.Context) (Found, error) { return g.found(ctx, "h2load") }

// Found implements [Finder].
func (g Nighthawk) Found(ctx context.Context) (Found, error) { return g.found(ctx, "nighthawk_client") }

// Found implements [Finder].
func (g K6) Found(ctx context.Context) (Found, error) { return g.found(ctx, "k6") }
