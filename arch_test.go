package tare_test

import (
	"fmt"
	"go/ast"
	"go/doc"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/tare-mesh/tare/test/must"
)

const module = "github.com/tare-mesh/tare/"

// layers, top first. A package imports only from lower lines; packages on one
// line do not know each other. Add a line here before adding a package.
var layers = [][]string{
	{"cmd/tare", "kube/cmd/tare-kube", "cmd/tare-agent"},
	{"kube/internal/cli/kubecli"},
	{"internal/cli"},
	{"kube/internal/session/kubernetes"},
	{"internal/session"},
	{"internal/cli/health", "internal/show/plot", "internal/show/push", "internal/show/serve"},
	{"internal/run/runner", "internal/show/live", "internal/show/page", "internal/show/series", "internal/study/debate", "internal/study/uds", "internal/study/callgraph"},
	{"internal/show/report", "internal/show/loadpage"},
	{"internal/importer", "kube/internal/meter/agent", "kube/internal/meter/kubelet"},
	{"internal/answer", "internal/predict", "internal/result/verify", "internal/run/generator", "internal/run/meter", "internal/run/timeline",
		"internal/run/platform/local", "kube/internal/platform/kube", "internal/inside/service", "internal/inside/proxy", "internal/inside/control"},
	{"internal/compare"},
	{"internal/figures"},
	{"test/platformtest", "test/answertest", "test/debatetest", "test/importertest", "test/clitest", "test/programtest"},
	{"internal/run/platform", "internal/result", "internal/load/engine", "kube/internal/meshes", "kube/internal/leftover", "internal/base/image", "kube/internal/agents"},
	{"internal/load/epoll"},
	{"internal/load/job"},
	{"internal/load/target"},
	{"internal/load/record", "internal/load/http1", "internal/load/http2", "internal/load/websocket", "internal/inside/nodeagent", "internal/inside/simulated"},
	{"internal/load/host", "internal/load/check", "internal/load/stream", "internal/load/schedule", "internal/load/calls"},
	{"internal/experiment/plan", "internal/result/balance", "internal/cli/console"},
	{"internal/experiment", "kube/internal/chart", "kube/internal/kustomize", "kube/internal/inplace", "kube/internal/guard", "kube/internal/rbac", "internal/load/worker"},
	{"internal/experiment/expect"},
	{"internal/load", "kube/test/clustertest"},
	{"internal/experiment/mesh", "internal/experiment/app", "kube/internal/cluster", "internal/load/capacity"},
	{"internal/metric", "internal/experiment/manifest", "internal/stats", "test/statstest", "internal/answer/effective", "internal/base/strict", "internal/base/hdrlog", "internal/base/fetch", "internal/base/companion", "internal/base/dial", "internal/base/execution", "internal/base/check", "internal/base/jsonschema", "internal/base/rpc", "internal/base/scrape", "internal/base/httpserver"},
	{"internal/base/proc", "internal/base/regular", "internal/base/outfile", "internal/base/clock", "internal/base/cgroup", "internal/base/secret"},
	{"internal/base/printable"},
	{"internal/base/certificate", "internal/base/condition", "test/difftest", "internal/base/hint", "internal/base/wait", "examples"},
	{"internal/base/routine", "test/part"},
	{"internal/base/lists", "test/must"},
}

var refused = map[string]string{
	"util": "name the thing", "utils": "name the thing", "common": "name the thing",
	"helpers": "name the thing", "pkg": "use internal", "types": "put a type where it is used",
}

func level(pkg string) int {
	for i, line := range layers {
		for _, p := range line {
			if p == pkg {
				return i
			}
		}
	}
	return -1
}

// The imports are parsed here, in this process, so that the test cache sees every file.
func TestLayers(t *testing.T) {
	files := 0
	must.OK(t, filepath.WalkDir(".", func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name := d.Name()
		if d.IsDir() {
			if path != "." && (strings.HasPrefix(name, ".") || name == "testdata" || name == "tools" || name == "bin" || name == "runs") {
				return filepath.SkipDir
			}
			if why, bad := refused[name]; bad {
				t.Errorf("%s: no package may be called %q: %s", path, name, why)
			}
			return nil
		}
		if !strings.HasSuffix(name, ".go") {
			return nil
		}
		pkg := filepath.ToSlash(filepath.Dir(path))
		from := level(pkg)
		if from < 0 && (strings.HasPrefix(pkg, "kube/test/") || !strings.HasPrefix(pkg, "internal/") && !strings.HasPrefix(pkg, "cmd/") && !strings.HasPrefix(pkg, "kube/")) {
			return nil
		}
		files++
		if from < 0 {
			t.Errorf("%s: package %s has no line in layers", path, pkg)
			return nil
		}
		f, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.ImportsOnly)
		if err != nil {
			return err
		}
		for _, spec := range f.Imports {
			imp, _ := strconv.Unquote(spec.Path.Value)
			if spec.Name != nil && spec.Name.Name == "_" && imp != "embed" {
				t.Errorf("%s: blank import of %s: variants are listed in internal/cli/catalog.go and internal/session/program.go, not registered", path, imp)
			}
			to, inside := strings.CutPrefix(imp, module)
			if !inside {
				continue
			}
			switch l := level(to); {
			case to == pkg: // an external test package
			case strings.HasSuffix(path, "_test.go") && filepath.Base(to) == filepath.Base(pkg)+"test": // its own test support
			case l < 0:
				t.Errorf("%s: imports %s, which has no line in layers", path, to)
			case l <= from:
				t.Errorf("%s: %s may not import %s, which is not below it", path, pkg, to)
			}
		}
		return nil
	}))
	if files < 20 {
		t.Fatalf("only %d files seen: the walk is broken", files)
	}
}

// unguarded are the packages whose goroutines run in programs inside a trial, or in tests.
var unguarded = regexp.MustCompile(`^(cmd/tare-agent|internal/(load|inside)|.*test)(/|$)`)

// A panic in any goroutine of tare ends it with exit code 1, see package routine.
func TestGoroutinesAreGuarded(t *testing.T) {
	guarded := func(e ast.Expr) bool {
		call, ok := e.(*ast.CallExpr)
		if !ok {
			return false
		}
		f, ok := call.Fun.(*ast.SelectorExpr)
		return ok && f.Sel.Name == "Guarded"
	}
	seen := 0
	for _, root := range []string{"internal", "cmd", "kube"} {
		must.OK(t, filepath.WalkDir(root, func(path string, _ fs.DirEntry, err error) error {
			if err != nil || filepath.Ext(path) != ".go" || strings.HasSuffix(path, "_test.go") || unguarded.MatchString(filepath.ToSlash(filepath.Dir(path))) {
				return err
			}
			files := token.NewFileSet()
			f, err := parser.ParseFile(files, path, nil, parser.SkipObjectResolution)
			if err != nil {
				return err
			}
			ast.Inspect(f, func(n ast.Node) bool {
				ok := true
				switch n := n.(type) {
				case *ast.GoStmt:
					seen++
					ok = guarded(n.Call.Fun)
				case *ast.CallExpr:
					if f, isMethod := n.Fun.(*ast.SelectorExpr); isMethod && f.Sel.Name == "Go" && len(n.Args) == 1 {
						seen++
						ok = guarded(n.Args[0])
					}
				}
				if !ok {
					t.Errorf("%s: write go routine.Guarded(f)(), or group.Go(routine.Guarded(f)): a panic would end tare with exit code 2", files.Position(n.Pos()))
				}
				return true
			})
			return nil
		}))
	}
	if seen < 50 {
		t.Errorf("%d starts of goroutines seen: the walk is broken", seen)
	}
}

// groupImports has the imports among the groups of internal/, which are its first path elements.
// Tests do not count: each import has one file as an example.
func groupImports(t *testing.T) map[string]map[string]string {
	t.Helper()
	imports := map[string]map[string]string{}
	must.OK(t, filepath.WalkDir("internal", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || filepath.Ext(path) != ".go" || strings.HasSuffix(path, "_test.go") || strings.Contains(path, "testdata") {
			return err
		}
		f, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.ImportsOnly)
		if err != nil {
			return err
		}
		from := strings.Split(filepath.ToSlash(path), "/")[1]
		if imports[from] == nil {
			imports[from] = map[string]string{}
		}
		for _, spec := range f.Imports {
			imp, _ := strconv.Unquote(spec.Path.Value)
			if pkg, inside := strings.CutPrefix(imp, module+"internal/"); inside {
				if to, _, _ := strings.Cut(pkg, "/"); to != from {
					imports[from][to] = filepath.ToSlash(path)
				}
			}
		}
		return nil
	}))
	return imports
}

// groupOrder has the groups, top first: each imports only from lower lines.
// The groups of a circle remain without a line.
func groupOrder(imports map[string]map[string]string) (lines [][]string, circular []string) {
	left := slices.Sorted(maps.Keys(imports))
	placed := map[string]bool{}
	for {
		var line, rest []string
		for _, group := range left {
			ready := true
			for to := range imports[group] {
				ready = ready && placed[to]
			}
			if ready {
				line = append(line, group)
			} else {
				rest = append(rest, group)
			}
		}
		if line == nil {
			slices.Reverse(lines)
			return lines, rest
		}
		for _, group := range line {
			placed[group] = true
		}
		lines, left = append(lines, line), rest
	}
}

// A group can be read without the groups above it.
func TestGroupsHaveNoCircle(t *testing.T) {
	imports := groupImports(t)
	lines, circular := groupOrder(imports)
	if len(circular) == 0 {
		if len(lines) < 4 {
			t.Fatalf("only %d lines of groups: the walk is broken", len(lines))
		}
		return
	}
	// Each of these groups imports another of them: a walk along such imports comes back.
	at, walk := circular[0], []string(nil)
	for !slices.Contains(walk, at) {
		walk = append(walk, at)
		next := slices.IndexFunc(circular, func(to string) bool { return imports[at][to] != "" })
		at = circular[next]
	}
	walk = append(walk[slices.Index(walk, at):], at)
	for i, from := range walk[:len(walk)-1] {
		t.Errorf("circle: %s imports %s in %s", from, walk[i+1], imports[from][walk[i+1]])
	}
}

const architecturePage = "docs/explanation/architecture.md"

// layerList shows the layers, one a line.
func layerList() string {
	var b strings.Builder
	for _, line := range layers {
		var short []string
		for _, pkg := range line {
			short = append(short, strings.TrimPrefix(pkg, "internal/"))
		}
		b.WriteString("    " + strings.Join(short, " ") + "\n")
	}
	return b.String()
}

// groupList shows the groups, one line of groupOrder a line.
func groupList(t *testing.T) string {
	t.Helper()
	var b strings.Builder
	lines, _ := groupOrder(groupImports(t))
	for _, line := range lines {
		b.WriteString("    " + strings.Join(line, " ") + "\n")
	}
	return b.String()
}

// packageList has the first sentence of each package's comment.
func packageList(t *testing.T) string {
	t.Helper()
	var all []string
	for _, line := range layers {
		all = append(all, line...)
	}
	mains := append(must.Get(filepath.Glob("test/*/*.go"))(t), must.Get(filepath.Glob("kube/test/*/*.go"))(t)...)
	for _, file := range mains {
		if pkg := filepath.ToSlash(filepath.Dir(file)); !slices.Contains(all, pkg) {
			all = append(all, pkg)
		}
	}
	slices.Sort(all)
	var b strings.Builder
	for _, pkg := range all {
		if _, err := os.Stat(pkg); err == nil { // a line may come before its package
			fmt.Fprintf(&b, "- `%s`: %s\n", pkg, synopsis(t, pkg))
		}
	}
	return b.String()
}

// synopsis is the first sentence of a package's comment without "Package name".
func synopsis(t *testing.T, pkg string) string {
	t.Helper()
	files := must.Get(filepath.Glob(pkg + "/*.go"))(t)
	for _, file := range files {
		f := must.Get(parser.ParseFile(token.NewFileSet(), file, nil, parser.PackageClauseOnly|parser.ParseComments))(t)
		text := strings.Fields(new(doc.Package).Synopsis(f.Doc.Text()))
		if len(text) < 3 {
			continue
		}
		if text[0] == "Package" || text[0] == "Command" {
			text = text[1:]
		}
		rest := strings.NewReplacer("[", "`", "]", "`").Replace(strings.Join(text[1:], " ")) // without the name
		return strings.TrimPrefix(rest, "is ")
	}
	t.Errorf("package %s has no comment", pkg)
	return ""
}

// The page lists the layers of this file, the groups, and the packages with their comments.
func TestArchitecturePage(t *testing.T) {
	b := must.Get(os.ReadFile(architecturePage))(t)
	page := between(t, string(b), "<!-- packages: go test . -run TestArchitecturePage -update -->\n", packageList(t))
	page = between(t, page, "<!-- layers -->\n", layerList())
	page = between(t, page, "<!-- groups -->\n", groupList(t))
	if page == string(b) {
		return
	}
	if !*update {
		t.Fatalf("%s is out of date: go test . -run TestArchitecturePage -update", architecturePage)
	}
	must.OK(t, os.WriteFile(architecturePage, []byte(page), 0o644))
}

// between replaces the part of a page from the line begin to the next line generatedEnd.
func between(t *testing.T, page, begin, content string) string {
	t.Helper()
	before, rest, found := strings.Cut(page, begin)
	_, after, closed := strings.Cut(rest, generatedEnd)
	if !found || !closed {
		t.Fatalf("the page has no part %q", begin)
	}
	return before + begin + "\n" + content + "\n" + generatedEnd + after
}

// libraries are linked into tare or tare-agent. Each adds to the CPU time of a first build
// (docs/adr/0005-two-programs.md): measure `make build` with an empty GOCACHE before adding one.
var libraries = []string{
	"github.com/aclements/go-moremath", "golang.org/x/perf",
	"charm.land/bubbletea/v2", "github.com/charmbracelet/colorprofile", "github.com/charmbracelet/ultraviolet", "github.com/charmbracelet/x/term", "github.com/charmbracelet/x/termios", "github.com/charmbracelet/x/windows", "github.com/muesli/cancelreader", "github.com/rivo/uniseg", "github.com/xo/terminfo",
	"github.com/HdrHistogram/hdrhistogram-go",
	"github.com/charmbracelet/x/ansi", "github.com/clipperhouse", "github.com/lucasb-eyer/go-colorful", "github.com/mattn/go-runewidth",
	"github.com/google/nftables", "github.com/google/shlex", "github.com/gorilla/websocket", "github.com/mdlayher/netlink", "github.com/mdlayher/socket", "golang.org/x/net/bpf",
	"github.com/prometheus/procfs",
	"github.com/spf13/cobra", "github.com/spf13/pflag",
	"go.yaml.in/yaml/v3",
	"golang.org/x/net/http2/hpack", "golang.org/x/net/internal/socks", "golang.org/x/net/netutil", "golang.org/x/net/proxy", "golang.org/x/sync/errgroup", "golang.org/x/sys", "golang.org/x/term",
	"gonum.org/v1/gonum/floats", "gonum.org/v1/gonum/internal", "gonum.org/v1/gonum/mathext",
}

func TestLibrariesOfTheLocalPrograms(t *testing.T) {
	list := exec.Command("go", "list", "-deps", "-f", "{{if not .Standard}}{{.ImportPath}}{{end}}", "./cmd/tare", "./cmd/tare-agent")
	list.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS=linux")
	out := must.Get(list.Output())(t)
	used := map[string]bool{}
	for pkg := range strings.FieldsSeq(string(out)) {
		if strings.HasPrefix(pkg, module) {
			continue
		}
		i := slices.IndexFunc(libraries, func(l string) bool { return pkg == l || strings.HasPrefix(pkg, l+"/") })
		if i < 0 {
			t.Errorf("tare or tare-agent links %s, which is not among libraries", pkg)
			continue
		}
		used[libraries[i]] = true
	}
	for _, l := range libraries {
		if !used[l] {
			t.Errorf("%s is not linked: remove it from libraries", l)
		}
	}
}

// maxMethods is the number of methods up to which a type can be read as one part.
const maxMethods = 32

// A type with more methods is split by role, each role with its own type. Methods promoted from
// embedded types of the package count: an embedded type moves methods to another place, not to another value.
func TestTypesAreSmall(t *testing.T) {
	declared := map[string]map[string]bool{} // method names by type; a name may have a file for each system
	embedded := map[string][]string{}        // types by type
	for _, root := range []string{"internal", "kube"} {
		must.OK(t, filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() || filepath.Ext(path) != ".go" || strings.HasSuffix(path, "_test.go") {
				return err
			}
			file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
			if err != nil {
				return err
			}
			key := func(of ast.Expr) string {
				if pointer, ok := of.(*ast.StarExpr); ok {
					of = pointer.X
				}
				if name, ok := of.(*ast.Ident); ok {
					return filepath.Dir(path) + "." + name.Name
				}
				return "" // of another package, or with parameters
			}
			add := func(of string, names ...*ast.Ident) {
				if declared[of] == nil {
					declared[of] = map[string]bool{}
				}
				for _, n := range names {
					declared[of][n.Name] = true
				}
			}
			ast.Inspect(file, func(n ast.Node) bool {
				switch n := n.(type) {
				case *ast.FuncDecl:
					if n.Recv != nil && key(n.Recv.List[0].Type) != "" {
						add(key(n.Recv.List[0].Type), n.Name)
					}
					return false
				case *ast.TypeSpec:
					var fields *ast.FieldList
					switch of := n.Type.(type) {
					case *ast.StructType:
						fields = of.Fields
					case *ast.InterfaceType:
						fields = of.Methods
					default:
						return false
					}
					for _, f := range fields.List {
						if _, method := f.Type.(*ast.FuncType); method && len(f.Names) > 0 {
							if _, ok := n.Type.(*ast.InterfaceType); ok {
								add(key(n.Name), f.Names...)
							}
						} else if len(f.Names) == 0 {
							embedded[key(n.Name)] = append(embedded[key(n.Name)], key(f.Type))
						}
					}
					return false
				}
				return true
			})
			return nil
		}))
	}
	var promoted func(of string, into, seen map[string]bool)
	promoted = func(of string, into, seen map[string]bool) {
		if seen[of] {
			return
		}
		seen[of] = true
		maps.Copy(into, declared[of])
		for _, e := range embedded[of] {
			promoted(e, into, seen)
		}
	}
	types := maps.Clone(declared)
	for name := range embedded {
		types[name] = nil
	}
	for name := range types {
		all := map[string]bool{}
		promoted(name, all, map[string]bool{})
		if len(all) > maxMethods {
			t.Errorf("%s has %d methods, at most %d", name, len(all), maxMethods)
		}
	}
	if len(declared) < 100 || len(embedded) < 20 {
		t.Errorf("%d types with methods and %d with embedded types were found", len(declared), len(embedded))
	}
}
