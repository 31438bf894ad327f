package cli

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/tare-mesh/tare/internal/base/fetch"
	"github.com/tare-mesh/tare/internal/cli/console"
	"github.com/tare-mesh/tare/internal/experiment"
	"github.com/tare-mesh/tare/internal/metric"
	"github.com/tare-mesh/tare/internal/result"
	"github.com/tare-mesh/tare/internal/run/generator"
	"github.com/tare-mesh/tare/test/difftest"
	"github.com/tare-mesh/tare/test/must"
)

func TestDoctorLooksAtEverything(t *testing.T) {
	out, err := call(t, newDoctorCommand, "--all")
	if err != nil && !strings.Contains(out, "FAIL  tare-agent") { // where it was not built
		t.Errorf("%v", err)
	}
	for _, c := range doctorChecks {
		if !strings.Contains(out, "  "+c.name+"  ") {
			t.Errorf("nothing on %s in\n%s", c.name, out)
		}
	}
	for _, p := range fetch.Known() {
		if !strings.Contains(out, "  "+p.Name+"  ") {
			t.Errorf("nothing on %s in\n%s", p.Name, out)
		}
	}
	for _, g := range generator.Others("") {
		if !strings.Contains(out, "  generator "+g.Name()+"  ") {
			t.Errorf("nothing on %s in\n%s", g.Name(), out)
		}
	}
}

func TestDoctorRefuses(t *testing.T) {
	for _, args := range [][]string{
		{"../../examples/quickstart.yaml", "--blocks", "2"},
		{"../../examples/quickstart.yaml", "--measure", "1ms"},
		{"no-such.yaml"},
		{"--set=NaN"}, {"--set=blocks=3"}, {"--mesh", "missing.yaml"}, {"--blocks", "5"}, {"--measure", "2s"}, {"--detect", "3%"},
		{"../../examples/quickstart.yaml", "--set=NaN"}, {"../../examples/quickstart.yaml", "--detect", "NaN"},
	} {
		_, err := call(t, newDoctorCommand, args...)
		if code := console.Exit(new(bytes.Buffer), "tare", err); code != console.BadUsage {
			t.Errorf("%q: exit code %d (%v), want %d", args, code, err, console.BadUsage)
		}
	}
}

// Counters with a refresh interval require a minimum measure phase.
func TestDoctorTellsShortPhases(t *testing.T) {
	of := func(d time.Duration) experiment.Phases { return experiment.Phases{Measure: experiment.Duration(d)} }
	for _, c := range []struct {
		refresh, file, aa time.Duration
		want              []string
	}{
		{0, time.Second, time.Second, nil},
		{16 * time.Second, 40 * time.Second, 40 * time.Second, nil},
		{16 * time.Second, 20 * time.Second, 40 * time.Second, []string{"set phases.measure to 40s or more"}},
		{16 * time.Second, time.Minute, 2 * time.Second, []string{"--measure 40s"}},
		{20 * time.Second, 2 * time.Second, 2 * time.Second, []string{"set phases.measure to 50s or more", "--measure 50s"}},
	} {
		got := shortPhases(of(c.file), of(c.aa), c.refresh)
		if len(got) != len(c.want) {
			t.Errorf("%+v: %q", c, got)
			continue
		}
		for i, want := range c.want {
			if !strings.HasSuffix(got[i], want) {
				t.Errorf("%q, want %q", got[i], want)
			}
		}
	}
}

// doctor runs tare doctor, whose state is in a directory of its own.
func doctor(t *testing.T, args ...string) (printed string, code int) {
	t.Helper()
	stdout, stderr, code := tareWith(t, "", []string{"XDG_STATE_HOME=" + t.TempDir()}, append([]string{"doctor"}, args...)...)
	return stdout + stderr, code
}

// An A/A pair through real processes: every figure is present.
func TestDoctorRunsAnAA(t *testing.T) {
	if testing.Short() {
		t.Skip("runs trials")
	}
	t.Parallel()
	out, code := doctor(t, "../../examples/quickstart.yaml", "--blocks", "3", "--measure", "1s", "--set", "validity={rateShortfall: 0.5, lateness: 5s}")
	if code != console.Done {
		t.Fatalf("exit code %d\n%s", code, out)
	}
	for _, name := range aaMetrics {
		m, _ := metric.Lookup(name)
		if !strings.Contains(out, m.Title()) || strings.Contains(out, m.Title()+"   ?") {
			t.Errorf("no %s in\n%s", m.Title(), out)
		}
	}
	must.Contain(t, out, "6 trials")
}

// A program that ends at once fails every trial: the first block is enough to find that.
func TestDoctorEndsAfterAFailedBlock(t *testing.T) {
	if testing.Short() {
		t.Skip("runs trials")
	}
	t.Parallel()
	file := filepath.Join(t.TempDir(), "x.yaml")
	text := "apiVersion: tare.dev/v1beta1\nkind: Experiment\nmetadata: {name: ends}\napplication: {command: [sh, -c, 'exit 3']}\nfactors: {mesh: [none]}\norder: random\ncontrol: true\n"
	must.OK(t, os.WriteFile(file, []byte(text), 0o600))
	out, code := doctor(t, file, "--blocks", "3")
	if code != console.Failed {
		t.Errorf("exit code %d, want %d\n%s", code, console.Failed, out)
	} else if d := difftest.Wrong(`!strings.Contains(out, "stopped after block 1: none of 2 trials started: ")`, !strings.Contains(out, "stopped after block 1: none of 2 trials started: "), `strings.Contains(out, "trial 3 of 6")`, strings.Contains(out, "trial 3 of 6"), `!strings.Contains(out, "exit status 3")`, !strings.Contains(out, "exit status 3")); d != "" {
		t.Errorf("%s:\n%s", d, out)
	}
}

// The example with all generators, shortened: each appears with its version, its
// figures and the definition of its latency.
func TestGeneratorsSideBySide(t *testing.T) {
	if os.Getenv("TARE_TEST_ALL") == "" {
		t.Skip("needs every load generator: make e2e-all builds and runs them")
	}
	dir := filepath.Join(t.TempDir(), "run")
	// The machine may be busy: this run is not a measurement.
	out, _, code := tareWith(t, "", []string{"XDG_STATE_HOME=" + t.TempDir()}, "run", "../../examples/generators.yaml", "--plain", "--out", dir, "--set", "blocks=1", "--set", "control=false",
		"--set", "phases={warmup: 1s, measure: 2s, drain: 1s}", "--set", "factors.rate=[200]", "--set", "validity={rateShortfall: 0.5, lateness: 5s, unattributed: 0.5}")
	if code != console.Done && code != console.Incomplete {
		t.Fatalf("exit code %d\n%s", code, out)
	}
	d := must.Get(result.Open(dir))(t)
	defer d.Close()
	records, err := d.Records()
	if err != nil || len(records) != len(d.Plan().Trials) || len(records) < 5 {
		t.Fatalf("%d records, %v\n%s", len(records), err, out)
	}
	all := must.Get(call(t, newReportCommand, dir, "--all"))(t)
	for _, r := range records {
		l := r.Load
		if r.Error != "" || l == nil {
			t.Errorf("%s: %s", r.Treatment, r.Error)
			continue
		}
		if l.Generator != r.Factors["generator"] || l.Version == "" || l.Completed < 100 {
			t.Errorf("%s: %+v", r.Treatment, l)
		}
		if l.Generator != "tare" && !strings.Contains(all, "\n  "+l.Generator+", ") {
			t.Errorf("what the latency of %s means is not in\n%s", l.Generator, all)
		}
	}
}
