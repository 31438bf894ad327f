package answer_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/tare-mesh/tare/internal/answer"
	"github.com/tare-mesh/tare/internal/compare"
	"github.com/tare-mesh/tare/internal/result"
	"github.com/tare-mesh/tare/test/answertest"
	"github.com/tare-mesh/tare/test/difftest"
	"github.com/tare-mesh/tare/test/must"
)

func untilStudy(until string, noise float64) answertest.Study {
	s := answertest.Quickstart()
	s.Treatments, s.Blocks, s.Noise, s.Warmup, s.Measure, s.Rate, s.Until = s.Treatments[:3], 12, noise, 1, 1, 50, until
	return s
}

func TestStopping(t *testing.T) {
	cases := []struct {
		until   string
		noise   float64
		reached bool
	}{
		{"cpu_us_per_request/total ±2%", 0.005, true},
		{"cpu_us_per_request/total ±2%", 0.1, false},
		{"cpu_us_per_request/total ±20us", 0.02, true},
		{"cpu_us_per_request/total ±1us", 0.02, false},
		{"error_ratio ±1%", 0.02, true}, // no error anywhere: nothing is left to narrow
	}
	if testing.Short() {
		t.Attr("short", "two cases")
		cases = cases[:2]
	}
	for _, c := range cases {
		r := analyse(t, untilStudy(c.until, c.noise))
		s := r.Stopping
		if s == nil || s.Widest != "envoy" && s.Half == nil {
			t.Errorf("%s at %v: %+v", c.until, c.noise, s)
		} else if d := difftest.Of("s.Reached", s.Reached, c.reached, "s.Blocks", s.Blocks, 12); d != "" {
			t.Errorf("%s: %s at %v: %+v", d, c.until, c.noise, s)
		}
		if hasWarning(r.Warnings, "width-not-reached") == c.reached {
			t.Errorf("%s at %v: warnings %+v", c.until, c.noise, r.Warnings)
		}
	}
	if r := quickstartReport(t); r.Stopping != nil {
		t.Errorf("%+v of a fixed number of blocks", r.Stopping)
	}
}

// The trials that a run did not need are not missing, and a limit leaves out what came later.
func TestStoppedRun(t *testing.T) {
	path := filepath.Join(t.TempDir(), "run")
	s := untilStudy("cpu_us_per_request/total ±2%", 0.005)
	s.Write(t, path)
	early := must.Get(result.Open(path))(t)
	r, err := answer.Analyze(early, compare.Options{Blocks: 6})
	if err != nil {
		t.Fatalf("%+v, %v", r.Stopping, err)
	} else if d := difftest.Of("r.Stopping.Blocks", r.Stopping.Blocks, 6, "r.Count.Planned", r.Count.Planned, 18, "r.Treatments[0].N", r.Treatments[0].N, 6); d != "" {
		t.Fatalf("%s: %+v, %v", d, r.Stopping, err)
	}
	for _, trial := range s.Plan().Trials {
		if trial.Block > 8 {
			must.OK(t, os.RemoveAll(filepath.Join(path, result.TrialsDir, trial.ID)))
		}
	}
	d := must.Get(result.Resume(path, early.Experiment(), early.Environment()))(t)
	defer d.Close()
	if r, err = answer.Analyze(d, compare.Options{}); err != nil || r.Count.Missing != 12 {
		t.Fatalf("%+v, %v", r.Count, err)
	}
	must.OK(t, d.Stop(result.Stopped{At: time.Now(), Block: 8, Why: "after block 6 it was reached"}))
	r, err = answer.Analyze(d, compare.Options{})
	if err != nil || !r.Stopping.Reached || !strings.Contains(r.Stopping.Why, "block 6") {
		t.Errorf("%+v %+v, %v", r.Count, r.Stopping, err)
	} else if d := difftest.Of("r.Count.Missing", r.Count.Missing, 0, "r.Count.Blocks", r.Count.Blocks, 8, "r.Stopping.Max", r.Stopping.Max, 12); d != "" {
		t.Errorf("%s: %+v %+v, %v", d, r.Count, r.Stopping, err)
	}
	if pending, err := d.Pending(); err != nil || len(pending) != 0 {
		t.Errorf("pending %v, %v", pending, err)
	}
}
