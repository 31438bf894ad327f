package tare_test

import (
	"encoding/json"
	"errors"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/tare-mesh/tare/internal/result"
	"github.com/tare-mesh/tare/test/clitest"
	"github.com/tare-mesh/tare/test/difftest"
	"github.com/tare-mesh/tare/test/must"
)

const contributing = "CONTRIBUTING.md"

// The three kinds of instructions of the page.
var (
	newFile     = regexp.MustCompile("(?ms)^New file `([^`\n]+)`:\n\n```\\w*\n(.*?)^```$")
	insertion   = regexp.MustCompile("(?ms)^In `([^`\n]+)`, below `([^\n]+)`:\n\n```\\w*\n(.*?)^```$")
	replacement = regexp.MustCompile("(?m)^In `([^`\n]+)`, replace `([^`\n]+)` with `([^`\n]+)`\\.$")
)

// applied are the sources after the page's instructions, by path. Each quoted text occurs once in its file.
func applied(t *testing.T) (page string, files map[string]string) {
	t.Helper()
	text := must.Get(os.ReadFile(contributing))(t)
	page, files = string(text), map[string]string{}
	edit := func(path, old, now string) {
		if _, read := files[path]; !read {
			b := must.Get(os.ReadFile(path))(t)
			files[path] = string(b)
		}
		if n := strings.Count(files[path], old); n != 1 {
			t.Fatalf("%s: %q occurs %d times in %s", contributing, old, n, path)
		}
		files[path] = strings.Replace(files[path], old, now, 1)
	}
	for _, m := range newFile.FindAllStringSubmatch(page, -1) {
		files[m[1]] = m[2]
	}
	for _, m := range insertion.FindAllStringSubmatch(page, -1) {
		edit(m[1], m[2]+"\n", m[2]+"\n"+m[3])
	}
	for _, m := range replacement.FindAllStringSubmatch(page, -1) {
		edit(m[1], m[2], m[3])
	}
	if n := strings.Count(page, "\nNew file `") + strings.Count(page, "\nIn `"); len(files) < 8 || n != len(newFile.FindAllString(page, -1))+len(insertion.FindAllString(page, -1))+len(replacement.FindAllString(page, -1)) {
		t.Fatalf("%s: %d instructions, not all of a known form", contributing, n)
	}
	return page, files
}

// The instructions of the page fit the sources.
func TestContributingFits(t *testing.T) { applied(t) }

// The examples of the page build, and act as it has it. In a copy of the sources with them, and with the pages that it has
// updated, the tests pass. The instructions themselves no longer fit there.
func TestContributingBuilds(t *testing.T) {
	if os.Getenv("TARE_TEST_ALL") == "" {
		t.Skip("it builds tare: make e2e-all runs it")
	}
	page, files := applied(t)
	guide := must.Get(os.ReadFile("docs/how-to/add-a-mesh.md"))(t)
	files["internal/experiment/mesh/definitions/forward-only.yaml"] = block(t, string(guide), "yaml")

	dir := t.TempDir()
	write := func(path, text string) string {
		path = filepath.Join(dir, path)
		must.OK(t, errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(text), 0o644)))
		return path
	}
	tree := filepath.Join(dir, "tare")
	listed := must.Get(exec.Command("git", "ls-files", "-z").Output())(t)
	for path := range strings.SplitSeq(strings.TrimRight(string(listed), "\x00"), "\x00") {
		if from, err := os.ReadFile(path); err == nil {
			write(filepath.Join("tare", path), string(from))
			must.OK(t, os.Chmod(filepath.Join(tree, path), modeOf(t, path)))
		} else if !os.IsNotExist(err) { // removed, and not yet in a commit
			t.Fatal(err)
		}
	}
	packages := map[string]bool{".": true, "./internal/cli": true}
	for path, text := range files {
		write(filepath.Join("tare", path), text)
		for at := filepath.Dir(path); at != "."; at = filepath.Dir(at) {
			if sources, _ := filepath.Glob(filepath.Join(at, "*.go")); len(sources) > 0 {
				packages["./"+at] = true
				break
			}
		}
	}
	runIn := func(place, command string, args ...string) string {
		t.Helper()
		cmd := exec.Command(command, args...)
		cmd.Dir, cmd.Env = place, append(os.Environ(), "CGO_ENABLED=0", "GOWORK=", "TARE_TEST_ALL=", "GOFLAGS="+os.Getenv("GOFLAGS")+" -trimpath -buildvcs=false")
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("%s %s: %v\n%s", command, strings.Join(args, " "), err, out)
		}
		return string(out)
	}
	run := func(command string, args ...string) string { t.Helper(); return runIn(".", command, args...) }

	_, updates, _ := strings.Cut(page, "\n## Then update the pages\n")
	updates, _, _ = strings.Cut(updates, "\n## ")
	for _, command := range commandsOf(updates) {
		words := strings.Fields(command)
		runIn(tree, words[0], words[1:]...)
		packages[words[2]] = true
	}
	runIn(tree, "go", append([]string{"test", "-short", "-count=1", "-skip=^Test(Contributing|IstioRunsIfChanged)"}, slices.Sorted(maps.Keys(packages))...)...)

	bin := filepath.Join(dir, "bin") + "/"
	runIn(tree, "go", "build", "-o", bin, "./cmd/tare", "./kube/cmd/tare-kube")

	tare := bin + "tare"
	for _, c := range []struct{ of, want string }{
		{"meshes", "forward-only"}, {"generators", "ab"}, {"metrics", "bytes_per_request"},
	} {
		if out := run(tare, "list", c.of); !regexp.MustCompile(`(?m)^` + c.want + `\b`).MatchString(out) {
			t.Errorf("tare list %s has no %s:\n%s", c.of, c.want, out)
		}
	}
	run(tare, "plan", "examples/quickstart.yaml", "--set", "factors.mesh=[none, forward-only]")

	imported := filepath.Join(dir, "imported")
	_, importing, _ := strings.Cut(page, "\n## Add an importer\n")
	run(tare, "import", "ab", write("none/ab.txt", block(t, importing, "text")), "--mesh", "none", "--out", imported)
	records, _ := filepath.Glob(filepath.Join(imported, "trials", "*", "record.json"))
	if len(records) != 1 {
		t.Fatalf("%d records of an import", len(records))
	}
	record, err := os.ReadFile(records[0])
	var read struct {
		Load result.Load `json:"load"`
	}
	if err := errors.Join(err, json.Unmarshal(record, &read)); err != nil {
		t.Errorf("%v: completed %d, %v of 42318, 42276 of them well:\n%s", err, read.Load.Completed, read.Load.Classes, record)
	} else if d := difftest.Of("read.Load.Completed", read.Load.Completed, 42318, `read.Load.Classes["2xx"]`, read.Load.Classes["2xx"], 42276, `read.Load.Classes["status"]`, read.Load.Classes["status"], 42); d != "" {
		t.Errorf("%s: %v: completed %d, %v of 42318, 42276 of them well:\n%s", d, err, read.Load.Completed, read.Load.Classes, record)
	}

	results := filepath.Join(dir, "results")
	clitest.Unpack(t, "internal/cli/testdata/formats/v1alpha1-faults.tar.gz", results)
	must.Contain(t, run(tare, "report", results, "--format", "json"), `"bytes_per_request"`)
	figure := filepath.Join(dir, "means.svg")
	run(tare, "plot", results, "--figure", "means", "-o", figure)
	must.Contain(t, string(must.Get(os.ReadFile(figure))(t)), "<svg")
}

// block is the first fenced block of a language.
func block(t *testing.T, page, language string) string {
	t.Helper()
	_, rest, ok := strings.Cut(page, "\n```"+language+"\n")
	text, _, closed := strings.Cut(rest, "\n```")
	if !ok || !closed {
		t.Fatalf("no block of %s", language)
	}
	return text + "\n"
}

// modeOf are the permissions of a file: scripts stay programs in a copy.
func modeOf(t *testing.T, path string) os.FileMode {
	t.Helper()
	info := must.Get(os.Stat(path))(t)
	return info.Mode().Perm()
}
