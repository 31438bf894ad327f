package tare_test

import (
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/tare-mesh/tare/internal/cli/clitest"
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
	text, err := os.ReadFile(contributing)
	if err != nil {
		t.Fatal(err)
	}
	page, files = string(text), map[string]string{}
	edit := func(path, old, now string) {
		if _, read := files[path]; !read {
			b, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
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

// The examples of the page build, and act as it has it.
func TestContributingBuilds(t *testing.T) {
	if os.Getenv("TARE_TEST_ALL") == "" {
		t.Skip("it builds tare: make e2e-all runs it")
	}
	page, files := applied(t)
	guide, err := os.ReadFile("docs/how-to/add-a-mesh.md")
	if err != nil {
		t.Fatal(err)
	}
	files["internal/experiment/mesh/definitions/forward-only.yaml"] = block(t, string(guide), "yaml")

	dir := t.TempDir()
	write := func(path, text string) string {
		path = filepath.Join(dir, path)
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(text), 0o644)); err != nil {
			t.Fatal(err)
		}
		return path
	}
	replace := map[string]string{}
	for path, text := range files {
		from, err := filepath.Abs(path)
		if err != nil {
			t.Fatal(err)
		}
		replace[from] = write(filepath.Join("src", path), text)
	}
	overlay, err := json.Marshal(map[string]any{"Replace": replace})
	if err != nil {
		t.Fatal(err)
	}
	run := func(command string, args ...string) string {
		t.Helper()
		cmd := exec.Command(command, args...)
		cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("%s %s: %v\n%s", command, strings.Join(args, " "), err, out)
		}
		return string(out)
	}
	bin := filepath.Join(dir, "bin") + "/"
	run("go", "build", "-trimpath", "-overlay", write("overlay.json", string(overlay)), "-o", bin, "./cmd/tare", "./cmd/tare-plot")

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
	run(tare, "import", "ab", write("none/ab.txt", block(t, page, "text")), "--mesh", "none", "--out", imported)
	records, _ := filepath.Glob(filepath.Join(imported, "trials", "*", "record.json"))
	if len(records) != 1 {
		t.Fatalf("%d records of an import", len(records))
	}
	record, err := os.ReadFile(records[0])
	if err != nil || !strings.Contains(string(record), `42318`) {
		t.Errorf("%v: no request in the imported record:\n%s", err, record)
	}

	results := filepath.Join(dir, "results")
	clitest.Unpack(t, "internal/cli/testdata/formats/v1alpha1-faults.tar.gz", results)
	if out := run(tare, "report", results, "--format", "json"); !strings.Contains(out, `"bytes_per_request"`) {
		t.Error("the report has no bytes_per_request")
	}
	figure := filepath.Join(dir, "errors.svg")
	run(tare, "plot", results, "--figure", "errors", "-o", figure)
	if b, err := os.ReadFile(figure); err != nil || !strings.Contains(string(b), "<svg") {
		t.Errorf("%v: no figure: %.200s", err, b)
	}
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
