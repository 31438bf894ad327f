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

	"github.com/tare-mesh/tare/internal/base/hint"
	"github.com/tare-mesh/tare/internal/base/lists"
	"github.com/tare-mesh/tare/internal/base/routine"
)

// Found is a generator's program on this machine.
type Found struct {
	Path    string
	Version string // as the program prints it, "unknown" if it prints none
}

// Others returns the external generators. A program in dir has precedence over PATH.
func Others(dir string) []Generator {
	return lists.Map(foreign, func(t traits) Generator { return external{traits: t, path: locate(dir, t.name)} })
}

// locate returns the path of the highest version of a program in dir, or name if dir has none.
func locate(dir, name string) string {
	if dir == "" {
		return name
	}
	found, _ := filepath.Glob(filepath.Join(dir, name+"-*", "bin", name)) // the pattern is well formed
	if len(found) == 0 {
		return name
	}
	return slices.MaxFunc(found, compareVersions)
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

// findTimeout bounds the run that prints a program's version.
const findTimeout = 10 * time.Second

// find searches for the program and runs it to learn its version.
func (g external) find(ctx context.Context) (Found, error) {
	path, err := exec.LookPath(cmp.Or(g.path, g.name))
	if err != nil {
		return Found{}, g.missing(err)
	}
	ctx, cancel := context.WithTimeout(ctx, findTimeout)
	defer cancel()
	out, err := exec.CommandContext(ctx, path, g.version.argument).CombinedOutput()
	m := regexp.MustCompile(g.version.pattern).FindSubmatch(out)
	if m == nil {
		return Found{}, g.missing(fmt.Errorf("run %s: the output has no version of %s: %.80q", path, g.name, out))
	}
	if exit := (*exec.ExitError)(nil); err != nil && !errors.As(err, &exit) {
		return Found{}, g.missing(fmt.Errorf("run %s: %w", path, err))
	}
	// wrk2 prints the name wrk. Only wrk2 has the flag --rate.
	if rated := strings.Contains(string(out), "--rate"); g.name == "wrk" && rated || g.name == "wrk2" && !rated {
		return Found{}, g.missing(fmt.Errorf("run %s: it is not %s but its namesake", path, g.name))
	}
	return Found{Path: path, Version: cmp.Or(string(m[1]), "unknown")}, nil
}

// missing returns the error of a generator without a usable program, with how to install it.
func (g external) missing(err error) error {
	install := "run make generators, or put " + g.name + " on PATH"
	switch {
	case g.debian != "":
		install = "run make generators, or install the package " + g.debian
	case g.unpackaged:
		install = "build " + g.name + " from its source and put it on PATH, or into " + filepath.Join(GeneratorsDir(), g.name+"-VERSION", "bin")
	}
	return hint.New(install, "find %s: %w", g.name, err)
}

// GeneratorsDir is the directory into which `make generators` installs programs,
// each in <name>-<version>/bin. TARE_GENERATORS overrides it.
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

// elsewhere is a generator whose program is not on this machine.
type elsewhere struct {
	Generator
	version string
}

// Elsewhere returns g with its program on another machine. Find returns version without a search.
func Elsewhere(g Generator, version string) Generator { return elsewhere{g, version} }

func (e elsewhere) Abilities() Abilities {
	a := e.Generator.Abilities()
	a.Find = func(context.Context) (Found, error) { return Found{Version: e.version}, nil }
	return a
}

// Sought is the result of the search for one generator's program.
type Sought struct {
	Name  string // of the generator
	Found Found
	Err   error // the program is missing or does not run, see [Abilities]
}

// FindAll searches for the programs of generators concurrently and returns the
// results in their order. It skips tare's own generator, which has none.
func FindAll(ctx context.Context, generators []Generator) []Sought {
	var sought []Sought
	var finds []func(context.Context) (Found, error)
	for _, g := range generators {
		if find := g.Abilities().Find; find != nil {
			sought, finds = append(sought, Sought{Name: g.Name()}), append(finds, find)
		}
	}
	var all sync.WaitGroup
	for i, find := range finds {
		all.Go(routine.Guarded(func() { sought[i].Found, sought[i].Err = find(ctx) }))
	}
	all.Wait()
	return sought
}

// Missing joins the errors of the missing programs. It returns nil if none is missing.
func Missing(sought []Sought) error {
	return errors.Join(lists.Map(sought, func(s Sought) error { return s.Err })...)
}
