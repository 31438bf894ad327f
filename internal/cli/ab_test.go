package cli

import (
	"bytes"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tare-mesh/tare/internal/base/hint"
	"github.com/tare-mesh/tare/internal/cli/console"
	"github.com/tare-mesh/tare/internal/result"
	"github.com/tare-mesh/tare/test/answertest"
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

// failing is a run of A and B, in which B fails 2 % of the requests with a class, and trials with failures are invalid.
func failing(t *testing.T, seed uint64, class string) string {
	t.Helper()
	s := answertest.AB(0, 4)
	s.Seed, s.Rate, s.Bare = seed, 1000, true
	s.Change = func(r *result.Record) {
		r.Load.Classes["timeout"] += 0
		if class != "" && r.Treatment == "envoy-b" {
			n := r.Load.Classes["2xx"] / 50
			r.Load.Classes["2xx"] -= n
			r.Load.Classes[class] += n
			r.Valid, r.Warnings = false, []result.Warning{{Code: "errors", Message: "2 % failed", Invalidates: true}}
		}
	}
	dir := filepath.Join(t.TempDir(), "run")
	s.Write(t, dir)
	return dir
}

// A build that fails requests breaches, with and without a gate on errors, in one run and between runs, though none of its
// trials is valid and undecided gates pass.
func TestFailuresBreach(t *testing.T) {
	base, fails := failing(t, 7, ""), failing(t, 8, "status")
	for _, c := range []struct {
		args string
		want int
		word string
	}{
		{"ab --from " + fails + " --undecided pass", console.Gate, "errors < +0.1%” is breached"},
		{"ab --from " + fails + " --undecided pass --gate error_ratio<0.5%", console.Gate, "20 of 1000 requests failed, and 0 of 1000 of the baseline"},
		{"ab --from " + fails + " --undecided pass --gate error_ratio<3%", console.Done, "holds"},
		{"ab --from " + base + " --undecided pass --gate error_ratio<0.5%", console.Done, "holds"},
		{"compare " + base + " " + fails + " --gate error_ratio<0.5%", console.Gate, "is breached by envoy-b"},
		{"compare " + base + " " + fails + " --gate error_ratio<3%", console.Done, ""},
		{"compare " + base + " " + fails + " --gate requests_lost<+10%", console.Gate, "is breached by envoy-b"},
		{"compare " + base + " " + fails + " --gate timeouts<0.9", console.Undecided, "envoy-b"}, // 0 of 4000: 0.92 of a trial at most
		{"compare " + base + " " + fails + " --gate timeouts<1", console.Done, ""},
		{"compare " + fails + " " + base + " --gate error_ratio<0.5%", console.Done, ""},
	} {
		text, errors, code := tareIn(t, "", strings.Fields(c.args)...)
		if code != c.want || !strings.Contains(strings.ReplaceAll(text+errors, "\n", " "), c.word) {
			t.Errorf("%s: exit code %d, want %d and %q in\n%s%s", c.args, code, c.want, c.word, text, errors)
		}
	}
}
