// Command mutation changes the arithmetic and the comparisons of packages, one change at a time, and counts the changes
// that the packages' own tests find. It prints each survivor, which no test finds, with its place.
//
// Each package is compiled once, with all its changes in it: an environment variable switches one of them on. A change
// is tested by the tests that reach it, quick ones first, up to the first that fails.
//
//	go run ./test/mutation -n 200 ./internal/stats ./internal/compare
package main

import (
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/tare-mesh/tare/internal/stats"
)

// mutant is one change of a package.
type mutant struct {
	in         *subject
	id         int
	place      string // file and line
	change     string
	arithmetic bool
}

// subject is a package with its changes and its tests.
type subject struct {
	ImportPath, Dir, Name string
	GoFiles               []string

	binary  string
	mutants []mutant
	tests   []test // by duration
}

// test is a test function of a package.
type test struct {
	name    string
	took    time.Duration
	reaches map[int]bool // sites
}

const (
	// quick tests run in one process, others each in their own.
	quick = 300 * time.Millisecond
	// slowest is the time of a test without a change above which it is left out: simulations find few changes, and late.
	slowest = 15 * time.Second
)

func main() {
	n := flag.Int("n", 400, "`number` of mutants, drawn at random over all packages")
	seed := flag.Uint64("seed", uint64(time.Now().Unix()/86400), "`seed` of the draw, by default the day")
	least := flag.Float64("least", 0, "fail below this `share` of found mutants of arithmetic")
	within := flag.Duration("within", 12*time.Minute, "draw for this long, after packages are compiled and their tests are read")
	flag.Parse()
	arithmetic, comparisons, err := run(*n, *seed, *within, flag.Args())
	if err != nil {
		fmt.Fprintln(os.Stderr, "mutation:", err)
		os.Exit(1)
	}
	fmt.Printf("score: arithmetic %v; comparisons %v; seed %d\n", arithmetic, comparisons, *seed)
	if arithmetic.share() < *least {
		os.Exit(1)
	}
}

// score counts mutants. Many of comparisons change nothing: < and <= of measured values.
type score struct{ found, done, all int }

func (s score) share() float64 { return float64(s.found) / float64(max(1, s.done)) }

// String has the interval of Clopper and Pearson.
func (s score) String() string {
	low := 1 - stats.ShareBound(int64(s.done-s.found), int64(s.done), 0.025)
	high := stats.ShareBound(int64(s.found), int64(s.done), 0.025)
	return fmt.Sprintf("%d of %d found, %.1f %% (95 %% interval %.1f to %.1f), drawn from %d", s.found, s.done, 100*s.share(), 100*low, 100*high, s.all)
}

// run tests drawn mutants of the packages.
func run(n int, seed uint64, within time.Duration, packages []string) (arithmetic, comparisons score, err error) {
	dir, err := os.MkdirTemp("", "mutation")
	if err != nil {
		return arithmetic, comparisons, err
	}
	defer os.RemoveAll(dir)
	var all []mutant
	of := func(m mutant) *score {
		if m.arithmetic {
			return &arithmetic
		}
		return &comparisons
	}
	subjects, err := list(packages)
	if err != nil {
		return arithmetic, comparisons, err
	}
	for _, s := range subjects {
		began := time.Now()
		if err := s.compile(dir); err != nil {
			return arithmetic, comparisons, err
		}
		if err := s.survey(filepath.Join(dir, "reached")); err != nil {
			return arithmetic, comparisons, err
		}
		for _, m := range s.mutants {
			of(m).all++
		}
		all = append(all, s.mutants...)
		fmt.Printf("%s: %d mutants, %d tests, read in %.0f s\n", s.ImportPath, len(s.mutants), len(s.tests), time.Since(began).Seconds())
	}
	end := time.Now().Add(within)
	draw := rand.New(rand.NewPCG(seed, 0)) //nolint:gosec // a sample
	for i, at := range draw.Perm(len(all)) {
		if i == n || time.Now().After(end) {
			break
		}
		m := all[at]
		of(m).done++
		switch reached, found := m.test(); {
		case found:
			of(m).found++
		default:
			fmt.Printf("survivor: %s: %s, in %d tests\n", m.place, m.change, reached)
		}
	}
	return arithmetic, comparisons, nil
}

// list returns the packages as the go command lists them.
func list(packages []string) (all []*subject, err error) {
	out, err := exec.Command("go", append([]string{"list", "-json=ImportPath,Dir,Name,GoFiles"}, packages...)...).Output() //nolint:gosec // the go command
	if err != nil {
		return nil, fmt.Errorf("go list: %w", err)
	}
	for d := json.NewDecoder(bytes.NewReader(out)); d.More(); {
		s := new(subject)
		if err := d.Decode(s); err != nil {
			return nil, err
		}
		all = append(all, s)
	}
	return all, nil
}

// compile builds the tests of the package with all its changes, none of which is on.
func (s *subject) compile(dir string) error {
	replace, err := s.rewrite(dir)
	if err != nil {
		return err
	}
	overlay, err := json.Marshal(map[string]map[string]string{"Replace": replace})
	if err != nil {
		return err
	}
	file := filepath.Join(dir, "overlay.json")
	if err := os.WriteFile(file, overlay, 0o600); err != nil {
		return err
	}
	s.binary = filepath.Join(dir, strings.ReplaceAll(s.ImportPath, "/", "_")+".test")
	if out, err := exec.Command("go", "test", "-c", "-vet=off", "-overlay", file, "-o", s.binary, s.ImportPath).CombinedOutput(); err != nil { //nolint:gosec // the go command
		return fmt.Errorf("go test -c %s: %w\n%s", s.ImportPath, err, out)
	}
	return nil
}

// run runs tests of the package with a variable set. ok: they pass within the limit.
func (s *subject) run(variable string, limit time.Duration, names ...string) (out []byte, ok bool) {
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	cmd := exec.CommandContext(ctx, s.binary, "-test.short", "-test.failfast", "-test.run", "^("+strings.Join(names, "|")+")$") //nolint:gosec // built above
	cmd.Dir, cmd.Env, cmd.WaitDelay = s.Dir, append(os.Environ(), variable), time.Second
	out, err := cmd.CombinedOutput()
	return out, err == nil
}

var testName = regexp.MustCompile(`(?m)^(Test|Example|Fuzz)\w*$`)

// survey runs each test alone, for its duration and the sites that it reaches. Tests that fail without a change are left out.
func (s *subject) survey(file string) error {
	cmd := exec.Command(s.binary, "-test.list", ".") //nolint:gosec // built above
	cmd.Dir = s.Dir
	out, err := cmd.Output()
	if err != nil {
		return fmt.Errorf("tests of %s: %w", s.ImportPath, err)
	}
	for _, name := range testName.FindAllString(string(out), -1) {
		if err := os.WriteFile(file, nil, 0o600); err != nil {
			return err
		}
		began := time.Now()
		if out, ok := s.run("MUTANTS_REACHED="+file, slowest, name); !ok {
			fmt.Printf("left out: %s of %s fails without a change, or takes longer than %v\n%s", name, s.ImportPath, slowest, out)
			continue
		}
		t := test{name, time.Since(began), map[int]bool{}}
		reached, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		for _, line := range strings.Fields(string(reached)) {
			if site, err := strconv.Atoi(line); err == nil {
				t.reaches[site] = true
			}
		}
		s.tests = append(s.tests, t)
	}
	slices.SortFunc(s.tests, func(a, b test) int { return int(a.took - b.took) })
	return nil
}

// test runs the tests that reach the mutant. A run that takes several times as long as without it is a find.
func (m mutant) test() (reached int, found bool) {
	var together []string
	var whole time.Duration
	var alone []test
	for _, t := range m.in.tests {
		switch {
		case !t.reaches[m.id/changes*changes]:
		case t.took < quick:
			together, whole = append(together, t.name), whole+t.took
		default:
			alone = append(alone, t)
		}
	}
	reached = len(together) + len(alone)
	fails := func(took time.Duration, names ...string) bool {
		_, ok := m.in.run("MUTANT="+strconv.Itoa(m.id), 3*took+10*time.Second, names...)
		return !ok
	}
	if len(together) > 0 && fails(whole, together...) {
		return reached, true
	}
	return reached, slices.ContainsFunc(alone, func(t test) bool { return fails(t.took, t.name) })
}
