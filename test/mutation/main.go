// Command mutation changes arithmetic of packages, one operator at a time, and counts the changes that their own
// tests find. A change that no test finds is a survivor: it is printed with its place.
//
//	go run ./test/mutation -n 40 ./internal/stats ./internal/compare
package main

import (
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

// exchanged has the operator that replaces each.
var exchanged = map[token.Token]token.Token{
	token.ADD: token.SUB, token.SUB: token.ADD, token.MUL: token.QUO, token.QUO: token.MUL,
	token.LSS: token.LEQ, token.LEQ: token.LSS, token.GTR: token.GEQ, token.GEQ: token.GTR,
	token.EQL: token.NEQ, token.NEQ: token.EQL, token.LAND: token.LOR, token.LOR: token.LAND,
}

// mutant is one operator of a file, with another in its place.
type mutant struct {
	pkg, file string
	offset    int
	was, is   token.Token
	line      int
}

func main() {
	n := flag.Int("n", 40, "`number` of mutants, drawn at random over all packages")
	seed := flag.Uint64("seed", uint64(time.Now().Unix()/86400), "`seed` of the draw, by default the day")
	least := flag.Float64("least", 0, "fail below this `share` of found mutants of arithmetic")
	limit := flag.Duration("limit", 2*time.Minute, "time of one test run; a mutant that exceeds it is found")
	flag.Parse()
	arithmetic, comparisons, err := run(*n, *seed, *limit, flag.Args())
	if err != nil {
		fmt.Fprintln(os.Stderr, "mutation:", err)
		os.Exit(1)
	}
	fmt.Printf("score: %v of arithmetic, %v of comparisons, seed %d\n", arithmetic, comparisons, *seed)
	if arithmetic.share() < *least {
		os.Exit(1)
	}
}

// score counts mutants. Many of comparisons change nothing: < and <= of measured values.
type score struct{ found, done int }

func (s score) share() float64 { return float64(s.found) / float64(max(1, s.done)) }

func (s score) String() string {
	return fmt.Sprintf("%d of %d mutants found (%.0f %%)", s.found, s.done, 100*s.share())
}

// run tests drawn mutants of the packages. Mutants that do not compile are drawn again.
func run(n int, seed uint64, limit time.Duration, packages []string) (arithmetic, comparisons score, err error) {
	var all []mutant
	for _, pkg := range packages {
		of, err := mutantsOf(pkg)
		if err != nil {
			return arithmetic, comparisons, err
		}
		all = append(all, of...)
	}
	dir, err := os.MkdirTemp("", "mutation")
	if err != nil {
		return arithmetic, comparisons, err
	}
	defer os.RemoveAll(dir)
	draw := rand.New(rand.NewPCG(seed, 0)) //nolint:gosec // a sample
	for _, i := range draw.Perm(len(all)) {
		if arithmetic.done+comparisons.done == n {
			break
		}
		m, of := all[i], &comparisons
		if m.was.Precedence() >= token.ADD.Precedence() {
			of = &arithmetic
		}
		out, ok, err := m.test(dir, limit)
		switch {
		case err != nil:
			return arithmetic, comparisons, err
		case bytes.Contains(out, []byte("[build failed]")):
			continue
		case !ok:
			of.found++
		default:
			fmt.Printf("survivor: %s:%d: %s in place of %s\n", m.file, m.line, m.is, m.was)
		}
		of.done++
	}
	return arithmetic, comparisons, nil
}

// mutantsOf are the mutants of a package's own files.
func mutantsOf(pkg string) (all []mutant, err error) {
	files, err := filepath.Glob(filepath.Join(pkg, "*.go"))
	if err != nil || len(files) == 0 {
		return nil, fmt.Errorf("%s has no Go files: %w", pkg, err)
	}
	for _, file := range files {
		if strings.HasSuffix(file, "_test.go") {
			continue
		}
		set := token.NewFileSet()
		parsed, err := parser.ParseFile(set, file, nil, 0)
		if err != nil {
			return nil, err
		}
		ast.Inspect(parsed, func(node ast.Node) bool {
			x, ok := node.(*ast.BinaryExpr)
			if !ok {
				return true
			}
			is, ok := exchanged[x.Op]
			if !ok || text(x.X) || text(x.Y) {
				return true
			}
			at := set.Position(x.OpPos)
			all = append(all, mutant{pkg, file, at.Offset, x.Op, is, at.Line})
			return true
		})
	}
	return all, nil
}

// text reports whether an expression is a text, or nil: then the operator is no arithmetic.
func text(x ast.Expr) bool {
	switch x := x.(type) {
	case *ast.BasicLit:
		return x.Kind == token.STRING || x.Kind == token.CHAR
	case *ast.Ident:
		return x.Name == "nil"
	}
	return false
}

// test runs the tests of the package with the mutant in place of the file, which stays as it is. ok: they pass.
func (m mutant) test(dir string, limit time.Duration) (out []byte, ok bool, err error) {
	source, err := os.ReadFile(m.file)
	if err != nil {
		return nil, false, err
	}
	changed := string(source[:m.offset]) + m.is.String() + string(source[m.offset+len(m.was.String()):])
	absolute, err := filepath.Abs(m.file)
	if err != nil {
		return nil, false, err
	}
	file, overlay := filepath.Join(dir, "mutant.go"), filepath.Join(dir, "overlay.json")
	replace, err := json.Marshal(map[string]map[string]string{"Replace": {absolute: file}})
	if err != nil {
		return nil, false, err
	}
	if err := os.WriteFile(file, []byte(changed), 0o600); err != nil {
		return nil, false, err
	}
	if err := os.WriteFile(overlay, replace, 0o600); err != nil {
		return nil, false, err
	}
	ctx, cancel := context.WithTimeout(context.Background(), limit+time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, "go", "test", "-short", "-vet=off", "-failfast", "-timeout", limit.String(), "-overlay", overlay, m.pkg) //nolint:gosec // the go command
	out, failed := cmd.CombinedOutput()
	return out, failed == nil, nil
}
