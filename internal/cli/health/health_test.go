package health

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"github.com/tare-mesh/tare/test/difftest"
	"github.com/tare-mesh/tare/test/must"
)

// One failed check fails the command; a noisy machine does not.
func TestWrite(t *testing.T) {
	for _, c := range []struct {
		verdict Verdict
		fails   bool
		want    string
	}{{OK, false, "Runs work here.\n"}, {Warn, false, "1 warning above"}, {Absent, false, "hint: build it"}, {Fail, true, "FAIL  thing"}} {
		var b bytes.Buffer
		err := Write(&b, []Row{{"thing", Finding{c.verdict, "a detail", "build it"}}}, true)
		if (err != nil) != c.fails || !strings.Contains(b.String(), c.want) {
			t.Errorf("%v: %v\n%s", c.verdict, err, b.String())
		}
	}
}

// A machine without problems has a few lines, and each problem has its own.
func TestWriteInShort(t *testing.T) {
	var rows []Row
	for i := range 25 {
		rows = append(rows, Row{fmt.Sprintf("check %d", i), Found("a detail")})
	}
	rows = append(rows, Row{"oha", Finding{Absent, "not installed", "build it"}})
	var b bytes.Buffer
	must.OK(t, Write(&b, rows, false))
	text := b.String()
	if lines := strings.Count(text, "\n"); lines > 10 {
		t.Errorf("%d lines:\n%s", lines, text)
	} else if d := difftest.Wrong(`!strings.Contains(text, "check 24")`, !strings.Contains(text, "check 24"), `strings.Contains(text, "a detail")`, strings.Contains(text, "a detail"), `!strings.Contains(text, "none  optional  oha\n")`, !strings.Contains(text, "none  optional  oha\n")); d != "" {
		t.Errorf("%s: %d lines:\n%s", d, lines, text)
	}
	b.Reset()
	if err := Write(&b, append(rows, Row{"load average", Finding{Warn, "18", "wait"}}), false); err != nil || !strings.HasPrefix(b.String(), "warn  load average  18\n                    hint: wait\nok    passed        check 0,") {
		t.Errorf("%v\n%s", err, b.String())
	}
}
