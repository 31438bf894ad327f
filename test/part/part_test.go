package part

import (
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
)

var _, _ = Of("one", TestInOne), Of("two", TestInTwo)

func TestMain(m *testing.M) { M{m}.Run() }

func TestInOne(*testing.T)  {}
func TestInTwo(*testing.T)  {}
func TestInNone(*testing.T) {}

// The tests of this file run again, in each part.
func TestParts(t *testing.T) {
	for _, c := range []struct{ part, flags, want string }{
		{"", "-test.run=In", "TestInOne TestInTwo TestInNone"},
		{"one", "", "TestInOne"},
		{"two", "-test.run=In$|Two", "TestInTwo"},
		{"one", "-test.run=InTwo", ""},
		{Others, "-test.run=In", "TestInNone"},
		{Others, "-test.skip=TestParts", "TestInNone"},
		{"three", "", "panic: TARE_TEST_PART: no test is in part three"},
	} {
		command := exec.Command(os.Args[0], slices.DeleteFunc([]string{"-test.v", c.flags}, func(s string) bool { return s == "" })...)
		command.Env = append(os.Environ(), Variable+"="+c.part)
		out, err := command.CombinedOutput()
		var ran []string
		for line := range strings.Lines(string(out)) {
			if name, is := strings.CutPrefix(line, "=== RUN   "); is {
				ran = append(ran, strings.TrimSpace(name))
			}
		}
		if got := strings.Join(ran, " "); err == nil && got != c.want || err != nil && !strings.Contains(string(out), c.want+"\n") {
			t.Errorf("part %q, %s: %s, want %s; %v", c.part, c.flags, got, c.want, err)
		}
	}
}
