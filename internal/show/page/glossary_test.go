package page_test

import (
	"flag"
	"os"
	"strings"
	"testing"

	"github.com/tare-mesh/tare/internal/show/page"
	"github.com/tare-mesh/tare/test/must"
)

var update = flag.Bool("update", false, "write docs/reference/glossary.md")

func TestGlossaryPage(t *testing.T) {
	const file = "../../../docs/reference/glossary.md"
	var b strings.Builder
	b.WriteString("# Glossary\n\nThe words of reports and pages.\n\n<!-- glossary: go test ./internal/show/page -run TestGlossaryPage -update -->\n\n| word | meaning |\n|---|---|\n")
	for _, word := range page.Glossary() {
		b.WriteString("| " + word.Name + " | " + word.Meaning + " |\n")
	}
	b.WriteString("\n<!-- end -->\n")
	if *update {
		must.OK(t, os.WriteFile(file, []byte(b.String()), 0o644))
	}
	if got, err := os.ReadFile(file); err != nil || string(got) != b.String() {
		t.Errorf("%s differs from the glossary of pages, %v: go test ./internal/show/page -run TestGlossaryPage -update", file, err)
	}
}
