package main

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/tare-mesh/tare/test/must"
)

// A test of a value finds every mutant of a sum, and a test that compares nothing finds none.
func TestScore(t *testing.T) {
	dir := t.TempDir()
	t.Chdir(dir)
	must.OK(t, os.WriteFile("go.mod", []byte("module x\n\ngo 1.26\n"), 0o600))
	for name, check := range map[string]string{"strict": `if f(5, 2, 4) != 10.5 || f(2, 5, 4) != 0 || f(6, 2, 4) != 0 { t.Error("wrong") }`, "blind": `_ = f(5, 2, 4)`} {
		must.OK(t, os.Mkdir(name, 0o700))
		must.OK(t, os.WriteFile(filepath.Join(name, "a.go"), []byte("package x\n\nfunc f(a, b, c float64) float64 {\n\tif a+b > 7.5 || a < b {\n\t\treturn 0\n\t}\n\treturn a*b + b/c\n}\n"), 0o600))
		must.OK(t, os.WriteFile(filepath.Join(name, "a_test.go"), []byte("package x\n\nimport \"testing\"\n\nfunc TestF(t *testing.T) { "+check+" }\n"), 0o600))
	}
	arithmetic, comparisons, err := run(100, 1, time.Minute, []string{"./blind"})
	if err != nil || (arithmetic != score{0, 4, 4}) || (comparisons != score{0, 3, 3}) {
		t.Errorf("blind: %v, %v, %v", arithmetic, comparisons, err)
	}
	// Limits that no case meets survive: > and < with equality.
	arithmetic, comparisons, err = run(100, 1, time.Minute, []string{"./strict"})
	if err != nil || (arithmetic != score{4, 4, 4}) || (comparisons != score{1, 3, 3}) {
		t.Errorf("strict: %v, %v, %v", arithmetic, comparisons, err)
	}
	if _, _, err = run(1, 1, time.Minute, []string{"./none"}); err == nil {
		t.Error("a package without files")
	}
}
