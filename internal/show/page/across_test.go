package page_test

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"math"
	"path/filepath"
	"testing"

	"github.com/tare-mesh/tare/internal/answer"
	"github.com/tare-mesh/tare/internal/compare"
	"github.com/tare-mesh/tare/internal/experiment/plan"
	"github.com/tare-mesh/tare/internal/metric"
	"github.com/tare-mesh/tare/internal/result"
	"github.com/tare-mesh/tare/internal/show/page"
	"github.com/tare-mesh/tare/test/answertest"
	"github.com/tare-mesh/tare/test/must"
)

// other is a page of several runs, or of a gate, and what a browser must show of it.
type other struct {
	text  []byte
	check func(*testing.T, finding)
}

// short is a study of a mesh and its A/A pair, with names that are scripts.
func short(t *testing.T, seed uint64, blocks int, dataUS float64, file string) *result.Dir {
	t.Helper()
	s := answertest.Quickstart()
	s.Seed, s.Blocks, s.Warmup, s.Measure, s.Rate, s.YAML, s.Treatments = seed, blocks, 1, 1, 100, file, s.Treatments[:3]
	s.Treatments[2].Factors, s.Treatments[2].Truth.DataUS = plan.Factors{"mesh": planted}, dataUS
	d := s.Write(t, filepath.Join(t.TempDir(), "run"))
	t.Cleanup(func() { d.Close() })
	return d
}

const gatedFile = "apiVersion: tare.dev/v1beta1\nkind: Experiment\nmetadata: {name: ab}\ndecide: {gates: ['cpu_us_per_request/app < +2%']}\n"

func othersOf(t *testing.T) map[string]other {
	t.Helper()
	var dirs []*result.Dir
	for i := range 10 {
		dirs = append(dirs, short(t, uint64(i+1), 4, map[bool]float64{false: 180, true: 260}[i >= 5], ""))
	}
	across := must.Get(compare.CompareRuns(dirs[:1], dirs[9], compare.AcrossOptions{}))(t)
	gated := short(t, 3, 8, 180, gatedFile)
	decided, err := answer.Analyze(gated, compare.Options{})
	if err != nil || len(decided.Decisions) != 1 {
		t.Fatalf("%d decisions: %v", len(decided.Decisions), err)
	}
	var a, g bytes.Buffer
	must.OK(t, errors.Join(page.WriteAcross(&a, across), page.Write(&g, page.Source{Analysis: answer.Analysis{Report: decided, Dir: gated}})))
	all := map[string]other{
		"hostile-across": {a.Bytes(), func(t *testing.T, f finding) { sameChanges(t, across, f) }},
		"hostile-gated":  {g.Bytes(), func(t *testing.T, f finding) { sameLooks(t, decided, f) }},
	}
	maps.Copy(all, severalOf(t))
	return all
}

func sameChanges(t *testing.T, a *compare.Across, f finding) {
	var got, want []float64
	for _, p := range f.Marks["figure-changes"] {
		got = append(got, p.Estimates...)
	}
	for _, name := range metric.Shown() {
		for _, c := range a.Changes {
			if c.Metric == name && c.Difference != nil && (c.Difference.Estimate != 0 || c.Difference.Known()) {
				m, _ := metric.Lookup(name)
				_, k := m.Display()
				want = append(want, c.Difference.Estimate*k)
			}
		}
	}
	near(t, "changes", got, want)
}

func sameLooks(t *testing.T, r *answer.Report, f finding) {
	rows := f.Tables["figure-boundary"]
	if len(rows) < 2 || len(f.Marks["figure-boundary"]) != 1 {
		t.Fatalf("%d looks", len(rows))
	}
	last, d := rows[len(rows)-1], r.Decisions[0]
	for i, want := range []float64{float64(d.Pairs), d.Change.Estimate, *d.Change.Low, *d.Change.High} {
		if got, ok := last[2+i].(float64); !ok || math.Abs(got-want) > 1e-9*math.Abs(want) {
			t.Errorf("the last look has %v, want %v", last[2+i], want)
		}
	}
	if got := fmt.Sprint(last[6]); got != string(d.Outcome) {
		t.Errorf("outcome %s, want %s", got, d.Outcome)
	}
	drawn := 0 // the gate is in %, and so are the axis and the table of its difference
	for _, row := range f.Tables["figure-differences"] {
		if row[2] == "CPU/request, application" {
			drawn++
			if got, ok := row[4].(float64); row[3] != "%" || !ok || math.Abs(got-d.Change.Estimate) > 1e-9*math.Abs(d.Change.Estimate) {
				t.Errorf("difference of the gate: %v %v, want %v %%", row[4], row[3], d.Change.Estimate)
			}
		}
	}
	if drawn != 1 {
		t.Errorf("%d differences of the gate", drawn)
	}
}
