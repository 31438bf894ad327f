package cli

import (
	"os"
	"regexp"
	"testing"

	"github.com/tare-mesh/tare/internal/answer/analysis"
)

// Every gate in the docs can be parsed.
func TestGatesInDocs(t *testing.T) {
	n := 0
	for _, file := range []string{"../../docs/tutorial/ab-in-ci.md", "compare.go"} {
		b, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range regexp.MustCompile(`--gate '([^']+)'`).FindAllStringSubmatch(string(b), -1) {
			n++
			if _, err := analysis.ParseGate(m[1]); err != nil {
				t.Errorf("%s: %v", file, err)
			}
		}
	}
	if n < 5 {
		t.Errorf("%d gates found", n)
	}
}
