package experiment

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"
)

const (
	page      = "../../docs/reference/experiment-file.md"
	pageBegin = "-update -->\n"
	pageEnd   = "<!-- end -->"
)

// The page lists every field with the words and the default of the schema.
func TestFieldsPage(t *testing.T) {
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	head, rest, ok := strings.Cut(string(text), pageBegin)
	if !ok {
		t.Fatalf("%s has no line that ends in %q", page, pageBegin)
	}
	_, tail, ok := strings.Cut(rest, pageEnd)
	if !ok {
		t.Fatalf("%s has no line %q", page, pageEnd)
	}
	want := head + pageBegin + fieldTable() + pageEnd + tail
	if want == string(text) {
		return
	}
	if flag.Lookup("update").Value.String() != "true" { // the flag stands in the other test package of this directory
		t.Fatalf("%s is not what the schema says: go test ./internal/experiment -run TestFieldsPage -update", page)
	}
	if err := os.WriteFile(page, []byte(want), 0o644); err != nil {
		t.Fatal(err)
	}
}

func fieldTable() string {
	var b strings.Builder
	b.WriteString("\n| field | default | meaning |\n|---|---|---|\n")
	for _, d := range describe(Known{}) {
		otherwise := ""
		if d.otherwise != nil {
			if j, err := json.Marshal(d.otherwise); err == nil {
				otherwise = "`" + strings.ReplaceAll(strings.Trim(string(j), `"`), "|", `\|`) + "`"
			}
		}
		fmt.Fprintf(&b, "| `%s` | %s | %s |\n", d.path, otherwise, strings.ReplaceAll(d.text, "|", `\|`))
	}
	b.WriteString("\n")
	return b.String()
}
