package cli

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/tare-mesh/tare/internal/base/hint"
	"github.com/tare-mesh/tare/internal/experiment/plan"
	"github.com/tare-mesh/tare/internal/result"
	"github.com/tare-mesh/tare/internal/run/meter"
	"github.com/tare-mesh/tare/test/answertest"
	"github.com/tare-mesh/tare/test/must"
)

// earlierRun writes a run of the quickstart on this machine, with noise of 2 % a trial.
func earlierRun(t *testing.T, dir string, change func(*result.Environment)) {
	t.Helper()
	s := must.Get(testLine(t, nil).Read(t.Context(), "../../examples/quickstart.yaml", ExperimentOptions{}))(t)
	text := must.Get(s.Experiment.YAML())(t)
	study := answertest.Quickstart()
	study.YAML, study.Treatments, study.Warmup, study.Measure, study.Rate = string(text), study.Treatments[:3], 1, 4, 100
	study.Noise, study.Drift, study.Blocks = 0.02, 0, 12
	for i := range study.Treatments {
		tr := &study.Treatments[i]
		factors := plan.Factors{"rate": 1000.0, "connections": 16.0, "responseSize": 1024.0}
		for k, v := range tr.Factors {
			factors[k] = v
		}
		tr.Factors = factors
	}
	study.Write(t, dir).Close()
	env := meter.Host()
	env.Schema, env.Platform = result.Schema, "local"
	if change != nil {
		change(&env)
	}
	b, err := json.Marshal(env)
	if err == nil {
		err = os.WriteFile(filepath.Join(dir, result.EnvironmentFile), b, 0o644)
	}
	must.OK(t, err)
}

func TestPlanDetect(t *testing.T) {
	file := must.Get(filepath.Abs("../../examples/quickstart.yaml"))(t)
	root := t.TempDir()
	earlierRun(t, filepath.Join(root, "runs", "one"), nil)
	earlierRun(t, filepath.Join(root, "runs", "two"), func(e *result.Environment) { e.CPUs++ })
	t.Chdir(root)
	got, err := call(t, newPlanCommand, file, "--detect", "5%", "--within", "10m")
	if err != nil || !strings.Contains(got, "from 1 earlier run:") {
		t.Fatalf("%v\n%s", err, got)
	}
	// The difference of a block deviates by 2 % of the treatment, and by less of the baseline.
	line := regexp.MustCompile(`envoy against none +CPU/request, total +(1|2)\.?\d* % \(.* to .*\) +\d[.\d]* % +\d+ blocks? .*\d[ms] +\d\.?\d* %`)
	if !line.MatchString(got) || strings.Count(got, "envoy against none") != 4 {
		t.Errorf("no line as %s in\n%s", line, got)
	}
	var usage *hint.UsageError
	for flags, minutes := range map[string]bool{"--detect=5%": true, "--within=10m": false} {
		b := briefOf(t, must.Get(call(t, newPlanCommand, file, flags, "--format", "json"))(t), 0)
		if b.Verdict != "planned" || b.Subject == "" || (b.Minutes > 0) != minutes || (b.Figure != nil) == minutes {
			t.Errorf("%s: %+v", flags, b)
		}
	}
	if got, err := call(t, newPlanCommand, file, "--detect", "5%", "--set", "phases.measure=8s"); !errors.As(err, &usage) || !strings.Contains(usage.Hint(), "--set blocks=4") {
		t.Errorf("a run with a shorter measure phase is used: %v\n%s", err, got)
	}
	if got, err := call(t, newPlanCommand, file, "--detect", "5%", "--from", "runs/two"); !errors.As(err, &usage) || !strings.Contains(err.Error(), fmt.Sprintf("number of CPUs: %d in the base run, %d in the new one", meter.Host().CPUs+1, meter.Host().CPUs)) {
		t.Errorf("a run of another machine is used: %v\n%s", err, got)
	}
	for _, wrong := range []string{"0", "-3%", "many", "100%"} {
		if _, err := call(t, newPlanCommand, file, "--detect="+wrong); !errors.As(err, &usage) {
			t.Errorf("--detect %s: %v", wrong, err)
		}
	}
}
