package generator

import (
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/tare-mesh/tare/test/must"
)

var update = flag.Bool("update", false, "write the table of docs/reference/generators.md again")

const (
	generatorsPage = "../../../docs/reference/generators.md"
	meaningsBegin  = "<!-- meanings: go test ./internal/run/generator -run TestThePageHasEveryMeaning -update -->\n"
	meaningsEnd    = "\n<!-- end -->\n"
)

// meaningTable has every definition of a latency that a report prints.
func meaningTable() string {
	var b strings.Builder
	b.WriteString("\n| generator | clock | time of a request |\n|---|---|---|\n")
	last := ""
	for _, m := range meanings {
		name := ""
		if m.generator != last {
			name, last = "`"+m.generator+"` ", m.generator
		}
		fmt.Fprintf(&b, "| %s| %s | %s |\n", name, m.of, m.text)
	}
	return b.String()
}

func TestThePageHasEveryMeaning(t *testing.T) {
	b := must.Get(os.ReadFile(generatorsPage))(t)
	before, rest, found := strings.Cut(string(b), meaningsBegin)
	_, after, closed := strings.Cut(rest, meaningsEnd)
	if !found || !closed {
		t.Fatalf("%s has no generated table", generatorsPage)
	}
	page := before + meaningsBegin + meaningTable() + meaningsEnd + after
	if page != string(b) {
		if !*update {
			t.Fatalf("%s is out of date: go test ./internal/run/generator -run TestThePageHasEveryMeaning -update", generatorsPage)
		}
		must.OK(t, os.WriteFile(generatorsPage, []byte(page), 0o644))
	}
	for _, g := range Others("") {
		if !strings.Contains(before, "| `"+g.Name()+"`") {
			t.Errorf("%s lacks %s", generatorsPage, g.Name())
		}
	}
}
