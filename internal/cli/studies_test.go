package cli

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"testing"
	"time"

	"github.com/tare-mesh/tare/internal/cli/console"
	"github.com/tare-mesh/tare/internal/experiment"
	"github.com/tare-mesh/tare/internal/experiment/mesh"
	"github.com/tare-mesh/tare/internal/experiment/plan"
	"github.com/tare-mesh/tare/internal/result"
	"github.com/tare-mesh/tare/internal/session"
	"github.com/tare-mesh/tare/test/difftest"
	"github.com/tare-mesh/tare/test/must"
)

// The studies run, shortened, with the real Envoy: one block, a second of
// load. Their figures mean nothing. The test requires that every trial is deployed,
// verified, loaded and recorded.
func TestStudiesRun(t *testing.T) {
	if testing.Short() {
		t.Skip("starts the real Envoy")
	}
	t.Parallel()
	bin := programs(t)
	for file, cut := range map[string][]string{
		"max-throughput":       {"factors.connections=[20]"},
		"k3s-sidecar-baseline": {"factors.rate=[50]", "factors.replicas=[1, 5]"},
		"istio-linkerd-cpu":    {"factors.rate=[60]"},
		"great-sidecar-debate": {"platform.kind=local", "meshes={}", "factors.mesh=[none, envoy]", "factors.rate=[60]", "factors.replicas=[1]"},
	} {
		t.Run(file, func(t *testing.T) {
			t.Parallel()
			runStudy(t, bin, file, cut...)
		})
	}
}

// A search takes all that the machine has, so nothing runs beside it.
func TestCapacityStudyRuns(t *testing.T) {
	if testing.Short() {
		t.Skip("starts the real Envoy")
	}
	runStudy(t, programs(t), "capacity", "factors.rate=[{max: 'errors < 10%, mean < 2s', probes: 5, probe: 500ms}]", "control=false")
}

// runStudy runs an example with one block. No trial may fail, and a busy machine may invalidate one.
func runStudy(t *testing.T, bin, file string, cut ...string) {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "run")
	args := []string{"run", "../../examples/" + file + ".yaml", "--plain", "--out", dir, "--set", "blocks=1",
		"--set", "phases={warmup: 500ms, measure: 1s, drain: 500ms}"}
	for _, c := range cut {
		args = append(args, "--set", c)
	}
	cmd := exec.Command(filepath.Join(bin, "tare"), args...)
	if out, err := cmd.CombinedOutput(); err != nil && cmd.ProcessState.ExitCode() != console.Incomplete {
		t.Fatalf("%v\n%s", err, out)
	}
	d := must.Get(result.Open(dir))(t)
	defer d.Close()
	records, err := d.Records()
	if err != nil || len(records) != len(d.Plan().Trials) {
		t.Fatalf("%d records of %d trials, %v", len(records), len(d.Plan().Trials), err)
	}
	for _, r := range records {
		if r.Error != "" || r.Load == nil {
			t.Errorf("%s: %s, %+v", r.ID, r.Error, r.Load)
		} else if d := difftest.Wrong("r.Load.Completed == 0", r.Load.Completed == 0, "len(r.Tasks) == 0", len(r.Tasks) == 0); d != "" {
			t.Errorf("%s: %s: %s, %+v", d, r.ID, r.Error, r.Load)
		}
		for _, w := range r.Warnings {
			if w.Code == "verify-failed" || w.Code == "not-verified" || w.Code == "task-died" {
				t.Errorf("%s: %s: %s", r.ID, w.Code, w.Message)
			}
		}
	}
}

// The debate's file is the complete study: every mesh, both call patterns, every rate, five runs of 300 s by three
// workers, on a cluster. Each mesh is installed once a block, and the plan's time includes it.
func TestGreatSidecarDebateWhole(t *testing.T) {
	c := testLine(t, nil)
	s := must.Get(c.Read(t.Context(), "../../examples/great-sidecar-debate.yaml", ExperimentOptions{}))(t)
	x, levels := s.Experiment, map[string]bool{}
	for _, treatment := range s.Plan.Treatments {
		l := treatment.Levels
		levels[fmt.Sprint(l.Mesh, " ", l.Application, " ", l.Rate)] = true
		if l.Replicas != 3 || treatment.Control != (treatment.Factors[plan.ControlFactor] == true) {
			t.Errorf("%+v", treatment)
		}
	}
	for _, m := range []string{"none", "linkerd", "istio", "istio-ambient"} {
		for _, topology := range []string{"faces", "faces-as-published"} {
			for _, rate := range []int{60, 120, 240, 600, 1200} {
				if !levels[fmt.Sprint(m, " ", topology, " ", experiment.Rate(rate))] {
					t.Errorf("%s, %s and %d are not among the treatments", m, topology, rate)
				}
			}
		}
		if m != "none" && x.Meshes[m].Profile != mesh.ProfileHA {
			t.Errorf("profile of %s is %q", m, x.Meshes[m].Profile)
		}
	}
	if d := difftest.Of("len(levels)", len(levels), 40, "x.Blocks.Max", x.Blocks.Max, 5, "x.Load.Workers", x.Load.Workers, 3, "time.Duration(x.Phases.Measure)", time.Duration(x.Phases.Measure), 300*time.Second, "x.Platform.Kind", x.Platform.Kind, mesh.OnKubernetes); d != "" {
		t.Errorf("%s: %d treatments, %+v", d, len(levels), x)
	}
	// Three meshes are installed in each block. The last of a block may be the first of the next.
	if n := s.Plan.MeshChanges; n < 2*(3*5-4) || n > 2*3*5 {
		t.Errorf("meshes come and go %d times", n)
	}
	if least := time.Duration(len(s.Plan.Trials))*s.Plan.TrialTime + time.Duration(s.Plan.MeshChanges)*session.MeshChange; s.Plan.Expected != least {
		t.Errorf("it takes %v, expected %v", s.Plan.Expected, least)
	}
}

// Every example named on the page exists, and every study is on the page.
func TestStudiesPage(t *testing.T) {
	page := must.Get(os.ReadFile("../../docs/how-to/published-studies.md"))(t)
	named := regexp.MustCompile(`examples/([a-z0-9-]+\.yaml)|^## ([a-z0-9-]+\.yaml)`).FindAllStringSubmatch(string(page), -1)
	if len(named) < 4 {
		t.Errorf("%d examples are named", len(named))
	}
	for _, n := range named {
		if _, err := os.Stat("../../examples/" + n[1] + n[2]); err != nil {
			t.Error(err)
		}
	}
}
