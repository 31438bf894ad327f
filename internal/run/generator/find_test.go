package generator

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tare-mesh/tare/internal/base/hint"
	"github.com/tare-mesh/tare/test/difftest"
	"github.com/tare-mesh/tare/test/must"
)

// place writes a program into dir that prints text and exits with code.
func place(t *testing.T, dir, name, version, text, code string) {
	t.Helper()
	bin := filepath.Join(dir, name+"-"+version, "bin")
	must.OK(t, os.MkdirAll(bin, 0o755))
	script := "#!/bin/sh\ncat <<'END'\n" + text + "\nEND\nexit " + code + "\n"
	must.OK(t, os.WriteFile(filepath.Join(bin, name), []byte(script), 0o755))
}

// A tare-agent that PATH alone has must be of this version: two versions differ in the words of their processes.
func TestAgentOfAnotherVersion(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("PATH", dir)
	must.OK(t, CheckAgent(t.Context(), "v1.0.0")) // there is none
	path := filepath.Join(dir, "tare-agent")
	for script, want := range map[string]string{
		"echo tare-agent v1.0.0": "",
		"echo tare-agent v0.9.0": "tare is v1.0.0, " + path + " is v0.9.0",
		"exit 7":                 path + " --version: exit status 7",
	} {
		must.OK(t, os.WriteFile(path, []byte("#!/bin/sh\n"+script+"\n"), 0o755))
		err := CheckAgent(t.Context(), "v1.0.0")
		if want == "" {
			must.OK(t, err)
			continue
		}
		must.Fail(t, err, want)
		must.Contain(t, hint.Of(err), "make build")
	}
}

func TestFound(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("PATH", "/bin:/usr/bin:"+filepath.Join(dir, "nothing"))
	place(t, dir, "oha", "1.9.0", "oha 1.9.0", "0")
	place(t, dir, "oha", "1.16.0", "oha 1.16.0", "0")
	place(t, dir, "vegeta", "12.12.0", "Version: 12.12.0\nCommit:", "0")
	place(t, dir, "wrk2", "4.0.0", "wrk 4.0.0 [epoll]\n  -R, --rate <T>", "1")
	place(t, dir, "wrk", "9.0.0", "wrk 4.0.0 [epoll]\n  -R, --rate <T>", "1")
	place(t, dir, "fortio", "1.0.0", "segmentation fault", "139")
	for _, g := range Others(dir) {
		found, err := g.Abilities().Find(t.Context())
		switch g.Name() {
		case "oha":
			if err != nil || found.Version != "1.16.0" || !strings.Contains(found.Path, "oha-1.16.0") {
				t.Errorf("oha: %+v, %v", found, err)
			}
		case "vegeta", "wrk2":
			if err != nil || found.Version == "" {
				t.Errorf("%s: %+v, %v", g.Name(), found, err)
			}
		case "wrk":
			must.Fail(t, err, "namesake", found)
		case "fortio":
			must.Fail(t, err, "segmentation fault", found)
		}
	}
	for _, g := range Others(t.TempDir()) {
		if found, err := g.Abilities().Find(t.Context()); g.Name() == "fortio" && (!errors.Is(err, exec.ErrNotFound) || !strings.Contains(hint.Of(err), "on PATH")) {
			t.Errorf("%s: %+v, %v", g.Name(), found, err)
		}
	}
}

func TestGeneratorsDir(t *testing.T) {
	t.Setenv("TARE_GENERATORS", "/somewhere")
	if GeneratorsDir() != "/somewhere" {
		t.Error(GeneratorsDir())
	}
	t.Setenv("TARE_GENERATORS", "")
	t.Setenv("XDG_CACHE_HOME", "/cache")
	if got := GeneratorsDir(); got != "/cache/tare/generators" {
		t.Error(got)
	}
}

// A wrapped generator keeps its requirements, so that a load from elsewhere gets the same warm-up.
func TestElsewhereKeepsAbilities(t *testing.T) {
	for _, g := range Others("") {
		of := Elsewhere(g, "in an image").Abilities()
		found, err := of.Find(t.Context())
		if !of.Foreign() || err != nil {
			t.Errorf("%s: %+v, found %+v, %v", g.Name(), of, found, err)
		} else if d := difftest.Of("of.Needs", of.Needs, g.Abilities().Needs, "found.Version", found.Version, "in an image"); d != "" {
			t.Errorf("%s: %s: %+v, found %+v, %v", d, g.Name(), of, found, err)
		}
	}
	if a := (Tare{}).Abilities(); a.Foreign() || !a.Holds {
		t.Errorf("tare: %+v", a)
	}
}
