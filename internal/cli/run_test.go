package cli

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/tare-mesh/tare/internal/cli/console"
	"github.com/tare-mesh/tare/internal/experiment"
	"github.com/tare-mesh/tare/internal/experiment/expect"
	"github.com/tare-mesh/tare/internal/experiment/mesh"
	"github.com/tare-mesh/tare/internal/result"
	"github.com/tare-mesh/tare/internal/run/meter"
	"github.com/tare-mesh/tare/internal/run/platform"
	"github.com/tare-mesh/tare/internal/session"
	"github.com/tare-mesh/tare/test/answertest"
	"github.com/tare-mesh/tare/test/must"
)

func TestUnusable(t *testing.T) {
	for want, n := range map[string][3]int{
		"1 of 18 trials was invalid":               {0, 1, 18},
		"2 of 18 trials were invalid":              {0, 2, 18},
		"1 of 18 trials failed":                    {1, 0, 18},
		"3 of 18 trials failed and 1 was invalid":  {3, 1, 18},
		"1 of 18 trials failed and 2 were invalid": {1, 2, 18},
	} {
		if got := unusableText(n[0], n[1], n[2]); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

// A gate is decided first. Then come expectations of valid trials, and last the trials that cannot be used.
func TestOutcomeOfARun(t *testing.T) {
	const within, beyond, open = "cpu_us_per_request/app < +30%", "cpu_us_per_request/app < +2%", "cpu_us_per_request/app < +10%"
	unmetIn := func(r *result.Record) { r.Expectations = []expect.Outcome{{Expect: "no failed requests"}} }
	invalid := func(r *result.Record) { r.Valid = false }
	byHand := func(codes ...string) func(*result.Record) {
		return func(r *result.Record) {
			invalid(r)
			r.ByHand = []result.ByHand{{Target: "echo-0", At: r.Load.Start.Add(time.Second), Patch: `{"delay": "1s"}`}}
			for _, code := range codes {
				r.Warnings = append(r.Warnings, result.Warning{Code: code, Message: code, Invalidates: true})
			}
		}
	}
	for name, c := range map[string]struct {
		gate   string
		o      runOptions
		change func(*result.Record) // of one trial of the first block, or of all blocks
		all    bool
		want   int
	}{
		"done":                                {"", runOptions{}, nil, false, console.Done},
		"an invalid trial":                    {"", runOptions{}, invalid, false, console.Incomplete},
		"a failed trial":                      {"", runOptions{}, func(r *result.Record) { r.Valid, r.Error = false, "deploy" }, false, console.Incomplete},
		"changed by hand":                     {"", runOptions{}, byHand("changed-by-hand", "errors"), false, console.Done},
		"changed by hand, and a process died": {"", runOptions{}, byHand("changed-by-hand", "task-died"), false, console.Incomplete},
		"an expectation":                      {"", runOptions{}, unmetIn, false, console.Gate},
		"an expectation of an invalid trial":  {"", runOptions{}, func(r *result.Record) { unmetIn(r); invalid(r) }, false, console.Incomplete},
		"a gate holds":                        {within, runOptions{}, nil, false, console.Done},
		"a gate holds, with an invalid trial": {within, runOptions{}, invalid, false, console.Incomplete},
		"of tare ab":                          {within, runOptions{gatesOnly: true}, invalid, false, console.Done},
		"of tare ab, without B":               {gate: within, o: runOptions{gatesOnly: true, undecided: "pass"}, change: invalid, all: true, want: console.Incomplete},
		"a gate holds, but an expectation":    {within, runOptions{gatesOnly: true}, unmetIn, false, console.Gate},
		"a breach, with an invalid trial":     {beyond, runOptions{}, invalid, false, console.Gate},
		"undecided":                           {open, runOptions{}, nil, false, console.Undecided},
		"undecided, and passes":               {open, runOptions{undecided: "pass"}, nil, false, console.Done},
		"undecided, and passes, but invalid":  {open, runOptions{undecided: "pass"}, invalid, false, console.Incomplete},
		"undecided, and fails":                {open, runOptions{undecided: "fail"}, nil, false, console.Gate},
	} {
		t.Run(name, func(t *testing.T) {
			s := answertest.Quickstart() // the application costs a tenth more under envoy
			s.Treatments, s.Blocks, s.Bare = s.Treatments[:3], 8, true
			s.YAML = "apiVersion: tare.dev/v1beta1\nkind: Experiment\nmetadata: {name: outcome}\n"
			if c.gate != "" {
				s.YAML += "decide: {gates: ['" + c.gate + "']}\n"
			}
			s.Change = func(r *result.Record) {
				if c.change != nil && (r.Block == 1 || c.all) && r.Treatment == "envoy" {
					c.change(r)
				}
			}
			var x experiment.Experiment
			if c.gate != "" {
				x.Decide.Gates = []string{c.gate}
			}
			err := runCommand{testLine(t, nil)}.outcome(&x, s.Write(t, filepath.Join(t.TempDir(), "run")), c.o)
			if got := console.Exit(io.Discard, "tare", err); got != c.want {
				t.Errorf("exit code %d, want %d: %v", got, c.want, err)
			}
		})
	}
}

// A run that is refused before its first trial leaves no directory.
func TestARefusedRunLeavesNoDirectory(t *testing.T) {
	const text = `apiVersion: tare.dev/v1beta1
kind: Experiment
metadata: {name: partition}
factors: {mesh: [none], rate: [50]}
faults: [{kind: partition, at: 1s}]
phases: {warmup: 1s, measure: 3s, drain: 1s}
blocks: 1
`
	opens := 0
	err := refusedRun(t, text, func() (*session.Opened, error) {
		opens++
		return &session.Opened{Environment: meter.Host()}, nil
	})
	if !errors.Is(err, errors.ErrUnsupported) || opens != 1 {
		t.Errorf("%v, opened %d times", err, opens)
	}
}

const anyExperiment = "apiVersion: tare.dev/v1beta1\nkind: Experiment\nmetadata: {name: e}\nfactors: {mesh: [none]}\n"

// The same for a platform that refuses when it is prepared, such as a cluster that another run has.
func TestARunThatIsNotPreparedLeavesNoDirectory(t *testing.T) {
	err := refusedRun(t, anyExperiment, func() (*session.Opened, error) {
		return &session.Opened{Environment: meter.Host(), Platform: platform.Platform{Deployer: refusing{}}}, nil
	}, "--plain")
	if !errors.Is(err, errRefused) {
		t.Error(err)
	}
}

var errRefused = errors.New("another run measures on the cluster")

// refusing is a platform that another run has.
type refusing struct{ platform.Deployer }

func (refusing) Prepare(context.Context, []mesh.Definition) (map[string]string, error) {
	return nil, errRefused
}

// refusedRun runs an experiment on platforms that are opened by open, and returns the error. It reports a results directory that is left.
func refusedRun(t *testing.T, text string, open func() (*session.Opened, error), flags ...string) error {
	t.Helper()
	file, out := must.File(t, t.TempDir(), "e.yaml", text), filepath.Join(t.TempDir(), "results")
	c := testLine(t, nil)
	for i := range c.program.Platforms {
		c.program.Platforms[i].Open = func(context.Context, session.Opening) (*session.Opened, error) { return open() }
	}
	root := c.Root()
	root.SetArgs(append([]string{"run", file, "--out", out}, flags...))
	err := root.ExecuteContext(t.Context())
	if _, left := os.Stat(out); !errors.Is(left, fs.ErrNotExist) {
		t.Errorf("there is %s: %v", out, left)
	}
	return err
}

// A start that has too few descriptors for a run, or whose file is missing, removes the keys of a killed
// run all the same.
func TestKeysOfAKilledRunAreRemovedFirst(t *testing.T) {
	bin := t.TempDir()
	tare := filepath.Join(bin, "tare")
	if err := os.Symlink(os.Args[0], tare); err != nil { // TestMain plays it
		t.Fatal(err)
	}
	for _, descriptors := range []string{"8", "12", "1024"} {
		tmp := t.TempDir()
		left := filepath.Join(tmp, "tare-run-left")
		must.OK(t, errors.Join(os.Mkdir(left, 0o700), os.WriteFile(filepath.Join(left, "lock"), nil, 0o600), os.WriteFile(filepath.Join(left, "key.pem"), []byte("key"), 0o600)))
		cmd := exec.Command("sh", "-c", `exec 3>&- 4>&- 5>&- 6>&- 7>&- 8>&- 9>&-; ulimit -n "$1" && shift && exec "$@"`, "sh", descriptors, tare, "run", "--resume", filepath.Join(tmp, "missing"))
		cmd.Env = append(os.Environ(), "TMPDIR="+tmp, "XDG_STATE_HOME="+t.TempDir())
		out, err := cmd.CombinedOutput()
		if _, gone := os.Stat(left); !errors.Is(gone, fs.ErrNotExist) || err == nil || !strings.Contains(string(out), "missing") {
			t.Errorf("%s descriptors: %v, %v\n%s", descriptors, gone, err, out)
		}
	}
}
