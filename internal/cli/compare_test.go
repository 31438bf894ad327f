package cli

import (
	"os"
	"regexp"
	"testing"

	"github.com/tare-mesh/tare/internal/compare"
	"github.com/tare-mesh/tare/test/must"
)

// Every gate in the docs parses.
func TestGatesInDocs(t *testing.T) {
	n := 0
	const file = "../../docs/tutorial/ab-in-ci.md"
	page := must.Get(os.ReadFile(file))(t)
	for in, text := range map[string]string{file: string(page), "help": newCompareCommand(testLine(t, nil)).Example, "help of ab": newABCommand(testLine(t, nil)).Example} {
		for _, m := range regexp.MustCompile(`--gate '([^']+)'`).FindAllStringSubmatch(text, -1) {
			n++
			if _, err := compare.ParseGate(m[1]); err != nil {
				t.Errorf("%s: %v", in, err)
			}
		}
	}
	if n < 5 {
		t.Errorf("%d gates found", n)
	}
}
