package experiment

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/tare-mesh/tare/test/must"
)

const (
	page      = "../../docs/reference/experiment-file.md"
	pageBegin = "-update -->\n"
	pageEnd   = "<!-- end -->"
)

// The page lists every field with the words and the default of the schema.
func TestFieldsPage(t *testing.T) {
	text := must.Get(os.ReadFile(page))(t)
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
	if flag.Lookup("update").Value.String() != "true" { // the other test package of this directory has the flag
		t.Fatalf("%s differs from the schema: go test ./internal/experiment -run TestFieldsPage -update", page)
	}
	must.OK(t, os.WriteFile(page, []byte(want), 0o644))
}

// onPage replaces texts that another page holds.
var onPage = map[string]string{"faults[].kind": "Kind of fault ([list](faults.md#kinds))."}

// fieldTable lists every field. baseline is one line, because its fields repeat the factors. Fields that repeat the fields of
// an earlier one have one line too, and a long text that repeats an earlier one names it.
func fieldTable() string {
	var b strings.Builder
	b.WriteString("\n")
	rows := fieldRows(Names{})
	first, below, left := map[string]string{}, map[string]string{}, ""
	for i, d := range rows {
		if left != "" && strings.HasPrefix(d.path, left) {
			continue
		}
		left = ""
		if strings.HasPrefix(d.path, "baseline.") {
			if d.path == "baseline."+Table[0].Name {
				b.WriteString("- `baseline.*`: A level of the factor of this name.\n")
			}
			continue
		}
		otherwise := ""
		if d.otherwise != nil {
			if j, err := json.Marshal(d.otherwise); err == nil {
				otherwise = " (`" + strings.Trim(string(j), `"`) + "`)"
			}
		}
		text := d.text
		if other, ok := onPage[d.path]; ok {
			text = other
		}
		if len(strings.Fields(text)) > 7 {
			if earlier := first[text]; earlier != "" {
				text = "As `" + earlier + "`."
			} else {
				first[text] = d.path
			}
		}
		var fields strings.Builder
		n := 0
		for _, f := range rows[i+1:] {
			rest, is := strings.CutPrefix(f.path, d.path)
			if !is || !strings.ContainsAny(rest[:1], ".[") {
				break
			}
			fmt.Fprintf(&fields, "%s %v %s\n", rest, f.otherwise, f.text)
			n++
		}
		if earlier := below[fields.String()]; n > 1 && earlier != "" {
			left = d.path
			if text = strings.TrimSuffix(text, "."); text == "As `"+earlier+"`" {
				text += ", with its fields."
			} else {
				text += ". Fields: as `" + earlier + "`."
			}
		} else {
			below[fields.String()] = d.path
		}
		fmt.Fprintf(&b, "- `%s`%s: %s\n", d.path, otherwise, text)
	}
	b.WriteString("\n")
	return b.String()
}
