package main

import (
	"os"
	"os/exec"
	"strings"
	"testing"
)

// The messages of a range are checked, not those before it.
func TestCommits(t *testing.T) {
	dir := repository(t, map[string]string{})
	git := func(args ...string) {
		t.Helper()
		c := exec.Command("git", append([]string{"-C", dir, "-c", "user.name=a", "-c", "user.email=a@example.com", "-c", "commit.gpgsign=false"}, args...)...)
		c.Env = append(os.Environ(), "GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_SYSTEM=/dev/null")
		if out, err := c.CombinedOutput(); err != nil {
			t.Fatalf("git %v: %v\n%s", args, err, out)
		}
	}
	check := func(span string) (int, string) {
		t.Helper()
		var out strings.Builder
		code, err := run(&out, []string{"-root", dir, "-commits", span})
		if err != nil {
			t.Fatal(err)
		}
		return code, out.String()
	}
	git("init", "-q")
	git("commit", "-q", "--allow-empty", "-m", "Refuse so many blocks")
	git("tag", "base")
	git("commit", "-q", "--allow-empty", "-m", "Refuse blocks without trials\n\nThe report says what is missing.")
	if code, out := check("base.."); code != 0 {
		t.Errorf("exit code %d:\n%s", code, out)
	}
	git("commit", "-q", "--allow-empty", "-m", "Keep the results\n\nWith a given namespace\nthe load had no\nrights.")
	code, out := check("base..")
	for _, want := range []string{`:5:1: "rights": write RBAC permissions`, `:3:8: "given namespace"`, "2 findings"} {
		if code != 1 || !strings.Contains(out, want) {
			t.Errorf("exit code %d:\n%swant %s", code, out, want)
		}
	}
	if _, err := readCommits(dir, "absent.."); err == nil {
		t.Error("no error for an unknown commit")
	}
}
