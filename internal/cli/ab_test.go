package cli

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/tare-mesh/tare/internal/base/hint"
	"github.com/tare-mesh/tare/internal/cli/console"
)

func TestABMistakes(t *testing.T) {
	for _, c := range []struct{ args, want string }{
		{"", "give one --mesh"},
		{"--mesh envoy", "nothing differs between A and B"},
		{"--mesh envoi --program ./x", "unknown mesh"},
		{"--mesh envoy --set b.options.acessLog=true", `there is no option "acessLog"`},
		{"--mesh envoy --program a --program b --program c", "3 times --program"},
		{"--mesh envoy --program ./x --gate cpu", "there is no metric"},
		{"--mesh envoy --program ./x --max-time 20s", "is too short"},
		{"--mesh envoy --program ./x --undecided maybe", "--undecided is"},
		{"../../examples/quickstart.yaml --a mesh=envoy --b rate=3", "not two levels of one factor"},
		{"../../examples/quickstart.yaml --a mesh=none --b mesh=envoy --set factors.rate=[1,2]", "treatments with these levels"},
	} {
		code, out := runAB(t, strings.Fields(c.args)...)
		if code != console.BadUsage || !strings.Contains(out, c.want) {
			t.Errorf("%s: exit code %d, want %d and %q in\n%s", c.args, code, console.BadUsage, c.want, out)
		}
		if strings.Contains(out, "tare ab:") {
			t.Errorf("%s: a position in a file that the user does not have:\n%s", c.args, out)
		}
	}
}

func runAB(t *testing.T, args ...string) (int, string) {
	t.Helper()
	var out bytes.Buffer
	code := New(console.Console{In: strings.NewReader(""), Out: &out, Err: &out}, nil).Run(t.Context(), append([]string{"ab"}, args...))
	return code, out.String()
}

// git bisect run: 0 is good, 1 to 127 but 125 bad, 125 skips, above 127 ends.
func TestBisectExitCodes(t *testing.T) {
	for _, c := range []struct {
		err  error
		want int
	}{
		{nil, 0},
		{&console.ExitError{Code: console.Gate}, 1},
		{&console.ExitError{Code: console.Undecided}, 125},
		{errors.New("the program does not start"), 125},
		{fmt.Errorf("wrapped: %w", &console.ExitError{Code: console.Incomplete}), 125},
		{hint.Usage(errors.New("x"), ""), 255},
	} {
		if got := console.Exit(new(bytes.Buffer), "tare", forBisect(true, c.err)); got != c.want {
			t.Errorf("%v: exit code %d, want %d", c.err, got, c.want)
		}
	}
	if err := forBisect(false, &console.ExitError{Code: console.Undecided}); console.Exit(new(bytes.Buffer), "tare", err) != console.Undecided {
		t.Error("the code changes without --bisect")
	}
}
