package tare_test

import (
	"bytes"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/tare-mesh/tare/test/must"
)

// report has the events of two packages as `go test -json` prints them.
func report(t *testing.T, events ...string) string {
	t.Helper()
	var text strings.Builder
	for _, e := range events {
		action, rest, _ := strings.Cut(e, " ")
		pkg, test, ok := strings.Cut(rest, " ")
		fmt.Fprintf(&text, `{"Time":"2026-11-27T00:00:00Z","Action":"%s","Package":"%s"`, action, pkg)
		if ok {
			fmt.Fprintf(&text, `,"Test":"%s"`, test)
		}
		if action == "attr" {
			text.WriteString(`,"Key":"short","Value":"10 rounds"`)
		}
		text.WriteString("}\n")
	}
	path := must.File(t, t.TempDir(), "report.json", text.String())
	return path
}

// A test process that died fails a run, although a repetition of its tests passes.
func TestEndedProcesses(t *testing.T) {
	for name, c := range map[string]struct {
		events []string
		want   string
	}{
		"passed":               {[]string{"start a", "run a TestOne", "pass a TestOne", "pass a"}, ""},
		"failed, then passed":  {[]string{"start a", "run a TestOne", "fail a TestOne", "fail a", "start a", "run a TestOne", "pass a TestOne", "pass a"}, ""},
		"killed in a test":     {[]string{"start a", "run a TestOne", "fail a", "start a", "run a TestOne", "pass a TestOne", "pass a"}, "a.TestOne: did not end"},
		"ended between tests":  {[]string{"start a", "run a TestOne", "pass a TestOne", "fail a"}, "a: failed without a failed test"},
		"failed, then skipped": {[]string{"start a", "run a TestOne", "fail a TestOne", "fail a", "start b", "run b TestTwo", "skip b TestTwo", "fail b"}, "b: failed without a failed test"},
	} {
		out, err := exec.Command("tools/ended.sh", report(t, c.events...)).CombinedOutput()
		if (err != nil) != (c.want != "") || !strings.Contains(string(out), c.want) {
			t.Errorf("%s: %v, %s", name, err, out)
		}
	}
}

// make e2e runs the tests that make test skipped or shortened, and only tests of the named packages.
func TestTestsLeft(t *testing.T) {
	const a, b = module + "internal/base/strict", module + "internal/base/hint"
	path := report(t, "pass "+a+" TestWhole", "skip "+a+" TestParts/one", "pass "+a+" TestParts", "attr "+b+" TestRounds", "pass "+b+" TestRounds")
	for _, c := range []struct{ packages, want string }{
		{"./internal/base/strict", "^(TestParts)$\n" + a + "\n"},
		{"./internal/base/hint", "^(TestRounds)$\n" + b + "\n"},
		{"./internal/base/proc", ""},
		{"./internal/base/strict ./internal/base/hint", a + " " + b + "\n"},
		{"./internal/base/hint ./internal/base/strict", b + " " + a + "\n"}, // the longest first
	} {
		out, err := exec.Command("tools/select.sh", append([]string{"left", path}, strings.Fields(c.packages)...)...).Output()
		if err != nil || !strings.HasSuffix(string(out), c.want) || c.want == "" && len(out) > 0 {
			t.Errorf("%s: %v, %q, want %q", c.packages, err, out, c.want)
		}
	}
}

// Tests that failed last are repeated alone, whole.
func TestTestsFailed(t *testing.T) {
	path := report(t, "run a TestOne", "fail a TestOne/part", "fail a TestOne", "fail b TestTwo", "pass b TestTwo", "skip b TestThree", "fail a")
	out, err := exec.Command("tools/select.sh", "failed", path).Output()
	if err != nil || string(out) != "^(TestOne)$\na\n" {
		t.Errorf("%v, %q", err, out)
	}
}

// A test that does less under -short is skipped or has the attribute: else make e2e does not run the rest.
func TestShortenedTestsAreLeft(t *testing.T) {
	function := regexp.MustCompile(`(?ms)^func (\w+)\(.*?^}`)
	shortened := 0
	for _, root := range []string{"internal", "kube", "test"} {
		must.OK(t, filepath.WalkDir(root, func(path string, _ fs.DirEntry, err error) error {
			if err != nil || !strings.HasSuffix(path, "_test.go") {
				return err
			}
			for _, f := range function.FindAllSubmatch(must.Get(os.ReadFile(path))(t), -1) {
				if !bytes.Contains(f[0], []byte("testing.Short()")) {
					continue
				}
				if shortened++; !bytes.Contains(f[0], []byte(`Attr("short"`)) && !bytes.Contains(f[0], []byte("Skip(")) {
					t.Errorf("%s: %s does less under -short, without t.Skip or t.Attr(\"short\", …)", path, f[1])
				}
			}
			return nil
		}))
	}
	if shortened < 50 {
		t.Errorf("only %d functions call testing.Short", shortened)
	}
}

// The digest of Istio's inputs is the same for the same files, changes with a file of their packages, and not with one that only
// reads results or is of other parts of the Makefile. make e2e runs Istio's clusters unless the stored one is equal.
func TestIstioRunsIfChanged(t *testing.T) {
	copied := t.TempDir()
	if out, err := exec.Command("git", "clone", "-q", ".", copied).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	digest := func(added ...string) string {
		for _, name := range added {
			must.File(t, copied, name, "package "+filepath.Base(filepath.Dir(name))+"\n")
		}
		out := must.Get(exec.Command(filepath.Join(copied, "tools/istio-inputs.sh")).Output())(t)
		return strings.TrimSpace(string(out))
	}
	first := digest()
	if again := digest("internal/show/report/added.txt", "internal/predict/added.txt", "internal/load/engine/added_test.go", "docs/added.md"); len(first) != 64 || again != first {
		t.Fatalf("digests %q and, with files that are not inputs, %q", first, again)
	}
	for _, name := range []string{"kube/internal/meshes/testdata/added", "kube/internal/cli/kubecli/added_test.go", "internal/run/runner/added.txt"} {
		next := digest(name)
		if next == first {
			t.Errorf("%s does not change the digest", name)
		}
		first = next
	}
	makefile := string(must.Get(os.ReadFile("Makefile"))(t))
	for _, c := range []struct {
		old, new string
		changes  bool
	}{{"-timeout 10m", "-timeout 11m", false}, {"$(or $(TIMEOUT),45m)", "46m", true}} {
		must.File(t, copied, "Makefile", strings.ReplaceAll(makefile, c.old, c.new))
		if next := digest(); (next != first) != c.changes || !strings.Contains(makefile, c.old) {
			t.Errorf("%s instead of %s in the Makefile changes the digest: %v, want %v", c.new, c.old, next != first, c.changes)
		}
	}
}

// The script for the page's tests fails in CI without Chromium, tmux or npm.
func TestPageInstallationInCI(t *testing.T) {
	for _, ci := range []string{"true", ""} {
		for _, missing := range []string{"chromium", "tmux", "npm"} {
			bin, home := t.TempDir(), t.TempDir()
			for _, name := range []string{"bash", "dirname", "id", "cmp", "mkdir", "rm", "cp", "touch"} {
				path := must.Get(exec.LookPath(name))(t)
				must.OK(t, os.Symlink(path, filepath.Join(bin, name)))
			}
			for _, name := range []string{"chromium", "tmux", "npm"} {
				if name == missing {
					continue
				}
				must.OK(t, os.WriteFile(filepath.Join(bin, name), []byte("#!/bin/bash\n"), 0o755))
			}
			script := exec.Command("bash", "tools/page/install.sh")
			script.Env = []string{"PATH=" + bin, "HOME=" + home, "CI=" + ci}
			out, err := script.CombinedOutput()
			if (err != nil) != (ci == "true") || !strings.Contains(strings.ToLower(string(out)), "no "+missing+":") {
				t.Errorf("CI=%q without %s: %v\n%s", ci, missing, err, out)
			}
		}
	}
}
