package answer_test

import (
	"path/filepath"
	"reflect"
	"testing"
	"time"

	"github.com/tare-mesh/tare/internal/answer"
	"github.com/tare-mesh/tare/internal/compare"
	"github.com/tare-mesh/tare/internal/result"
	"github.com/tare-mesh/tare/test/answertest"
	"github.com/tare-mesh/tare/test/difftest"
	"github.com/tare-mesh/tare/test/must"
)

const gateOfLooks = "cpu_us_per_request/app < +12%"

// gatedStudy has the mesh envoy, whose application costs a tenth more, and two blocks without a pair.
func gatedStudy() answertest.Study {
	s := answertest.Quickstart()
	s.Treatments, s.Blocks, s.Bare = s.Treatments[:3], 8, true
	s.YAML = "apiVersion: tare.dev/v1beta1\nkind: Experiment\nmetadata: {name: looks}\ndecide: {gates: ['" + gateOfLooks + "']}\n"
	s.Change = func(r *result.Record) {
		switch {
		case r.Block == 2 && r.Treatment == "envoy":
			r.Valid, r.Warnings = false, []result.Warning{{Code: "rate-shortfall", Message: "80 % of the requests", Invalidates: true}}
		case r.Block == 5 && r.Treatment == "none":
			r.Valid, r.Error = false, "deploy: the program ended"
		}
	}
	return s
}

// A look at a block is the same as a report of a run that ended there. Only the last one spends the rest of the error.
func TestLooks(t *testing.T) {
	d := gatedStudy().Write(t, filepath.Join(t.TempDir(), "run"))
	looks := must.Get(compare.NewLooks(d, compare.Options{}))(t)
	if looks.To() != 8 || !looks.EndsAt(8) || looks.EndsAt(7) {
		t.Errorf("complete up to block %d; the last look is after 8: %v", looks.To(), looks.EndsAt(8))
	}
	for block := 1; block <= looks.To(); block++ {
		got := must.Get(looks.At(block, false))(t)
		r := must.Get(answer.Analyze(d, compare.Options{Blocks: block}))(t)
		if want := r.Decisions; len(got) != 1 || !reflect.DeepEqual(bare(got[0]), bare(want[0])) || got[0].Last != (block == 8) {
			t.Errorf("block %d: %+v, want %+v", block, got, want)
		}
	}
	ordinary, _ := looks.At(7, false)
	last, err := looks.At(7, true)
	if err != nil || !last[0].Last || *last[0].Change.High-*last[0].Change.Low >= *ordinary[0].Change.High-*ordinary[0].Change.Low {
		t.Errorf("%v: the last look has %+v, an ordinary one %+v", err, last[0].Change, ordinary[0].Change)
	}
	if got := looks.Elapsed(2); got < 5*time.Minute || got > 7*time.Minute { // six trials, a minute each
		t.Errorf("two blocks took %v", got)
	}
}

// The time between an interruption and the resume does not count as time of the run.
func TestElapsedWithoutInterruption(t *testing.T) {
	s := gatedStudy()
	s.Change = func(r *result.Record) {
		if r.Block > 1 {
			r.Started, r.Ended = r.Started.Add(8*time.Hour), r.Ended.Add(8*time.Hour)
		}
	}
	looks := must.Get(compare.NewLooks(s.Write(t, filepath.Join(t.TempDir(), "run")), compare.Options{}))(t)
	if got := looks.Elapsed(2); got < 4*time.Minute || got > 7*time.Minute { // six trials, a minute each, without the idle part before one
		t.Errorf("two blocks took %v", got)
	}
}

// bare is a decision without what tests of other packages compare: floating point of another order of sums.
func bare(d compare.Decision) []any {
	return []any{d.Gate, d.Outcome, d.Pairs, d.Max, d.Last, d.Lost, d.Change.Low == nil, d.MorePairs}
}

func TestLostPairs(t *testing.T) {
	r := analyse(t, gatedStudy())
	want := []compare.LostPair{
		{Block: 2, Treatment: "envoy", Reason: "rate-shortfall", Message: "80 % of the requests"},
		{Block: 5, Treatment: "none", Reason: "failed", Message: "deploy: the program ended"},
	}
	if d := r.Decisions[0]; d.Pairs != 6 || !reflect.DeepEqual(d.Lost, want) {
		t.Errorf("%d pairs, lost %+v", d.Pairs, d.Lost)
	}
}

// A run whose gates were decided has no last look: its end depends on the results. One that ended by time has.
func TestLastLookOfAStoppedRun(t *testing.T) {
	for _, byTime := range []bool{false, true} {
		path := filepath.Join(t.TempDir(), "run")
		whole := gatedStudy().Write(t, path)
		d, err := result.Resume(path, whole.Experiment(), whole.Environment())
		must.OK(t, err)
		defer d.Close()
		must.OK(t, d.Stop(result.Stopped{At: time.Now(), Block: 6, Why: "it ends", Last: byTime}))
		r := must.Get(answer.Analyze(d, compare.Options{}))(t)
		if got := r.Decisions[0]; got.Last != byTime || got.Pairs != 4 || got.Max != 8 {
			t.Errorf("ended by time %v: %+v", byTime, got)
		}
		r, err = answer.Analyze(d, compare.Options{Blocks: 5, LastLook: true, Gates: []string{"cpu_us_per_request/app < +50%"}, Detect: 0.1})
		if err != nil || !r.Decisions[0].Last {
			t.Errorf("%v: %+v", err, r.Decisions)
		} else if d := difftest.Of("r.Decisions[0].Limit", r.Decisions[0].Limit, 50, "r.Decisions[0].Detect", r.Decisions[0].Detect, 10); d != "" {
			t.Errorf("%s: %v: %+v", d, err, r.Decisions)
		}
	}
}
