package generator

import (
	"os"
	"strings"
	"testing"
)

// TestThePageHasEveryMeaning checks that the documentation page contains every definition that a report prints.
func TestThePageHasEveryMeaning(t *testing.T) {
	page, err := os.ReadFile("../../../docs/reference/generators.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range meanings {
		if !strings.Contains(string(page), "| "+m.of+" | "+m.text+" |") {
			t.Errorf("docs/reference/generators.md lacks %s, %s: %s", m.generator, m.of, m.text)
		}
	}
	for _, g := range Others("") {
		if !strings.Contains(string(page), "| `"+g.Name()+"`") {
			t.Errorf("docs/reference/generators.md lacks %s", g.Name())
		}
	}
}
