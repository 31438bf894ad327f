package main

import (
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// The reports are of go test itself: of tests that pass, fail, are skipped, and of a process that ends in a test or
// after its tests.
func TestRead(t *testing.T) {
	if testing.Short() {
		t.Skip("compiles tests")
	}
	dir := t.TempDir()
	for name, text := range map[string]string{
		"go.mod": "module x\n\ngo 1.26\n",
		"x_test.go": `package x

import (
	"os"
	"testing"
)

func TestMain(m *testing.M) {
	code := m.Run()
	if os.Getenv("ENDS") == "after" {
		code = 3
	}
	os.Exit(code)
}

func TestA(t *testing.T) {
	t.Run("sub", func(t *testing.T) { t.Parallel() })
	if os.Getenv("ENDS") == "fail" {
		t.Fail()
	}
}

func TestB(t *testing.T) {
	if os.Getenv("ENDS") == "within" {
		os.Exit(3)
	}
	t.Skip()
}

func TestC(t *testing.T) {}
`,
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for ends, want := range map[string][]string{
		"": nil, "fail": nil, "within": {"x.TestB: did not end", "x: failed without a failed test"}, "after": {"x: failed without a failed test"},
	} {
		cmd := exec.Command("go", "test", "-count=1", "-json", ".")
		cmd.Dir, cmd.Env = dir, append(os.Environ(), "ENDS="+ends, "GOFLAGS=")
		report, _ := cmd.Output() // tests fail on purpose
		died, err := read(strings.NewReader(string(report) + string(report)))
		if err != nil || !slices.Equal(slices.Compact(died), want) {
			t.Errorf("%q: %v, want %v: %v\n%s", ends, died, want, err, report)
		}
	}
}

func TestCheck(t *testing.T) {
	path := filepath.Join(t.TempDir(), "report.json")
	for text, fails := range map[string]bool{
		`{"Action":"run","Package":"x","Test":"TestA"}` + "\n" + `{"Action":"pass","Package":"x","Test":"TestA"}` + "\n": false,
		`{"Action":"run","Package":"x","Test":"TestA"}` + "\n":                                                           true,
		"not JSON\n": true,
	} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := check(io.Discard, []string{path}); (err != nil) != fails {
			t.Errorf("%s: %v", text, err)
		}
	}
	if check(io.Discard, nil) == nil || check(io.Discard, []string{path + "x"}) == nil {
		t.Error("no report is no error")
	}
}
