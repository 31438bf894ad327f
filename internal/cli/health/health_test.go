package health

import (
	"bytes"
	"strings"
	"testing"
)

// One failed check fails the command; a noisy machine does not.
func TestWrite(t *testing.T) {
	for _, c := range []struct {
		verdict Verdict
		fails   bool
		want    string
	}{{OK, false, "Runs work here.\n"}, {Warn, false, "1 warning above"}, {Absent, false, "hint: build it"}, {Fail, true, "FAIL  thing"}} {
		var b bytes.Buffer
		err := Write(&b, []Row{{"thing", Finding{c.verdict, "a detail", "build it"}}})
		if (err != nil) != c.fails || !strings.Contains(b.String(), c.want) {
			t.Errorf("%v: %v\n%s", c.verdict, err, b.String())
		}
	}
}
