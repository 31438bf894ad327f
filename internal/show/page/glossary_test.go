package page_test

import (
	"flag"
	"os"
	"testing"

	"github.com/tare-mesh/tare/internal/base/must"
	"github.com/tare-mesh/tare/internal/show/page"
)

var update = flag.Bool("update", false, "write docs/reference/glossary.md")

func TestGlossaryPage(t *testing.T) {
	const file = "../../../docs/reference/glossary.md"
	if *update {
		must.OK(t, os.WriteFile(file, []byte(page.GlossaryPage()), 0o644))
	}
	if got, err := os.ReadFile(file); err != nil || string(got) != page.GlossaryPage() {
		t.Errorf("%s differs from the glossary of pages, %v: go test ./internal/show/page -run TestGlossaryPage -update", file, err)
	}
}
