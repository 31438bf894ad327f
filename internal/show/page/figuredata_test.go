package page_test

import (
	"encoding/json"
	"math"
	"path/filepath"
	"testing"

	"github.com/tare-mesh/tare/internal/answer"
	"github.com/tare-mesh/tare/internal/compare"
	"github.com/tare-mesh/tare/internal/experiment/mesh"
	"github.com/tare-mesh/tare/internal/figures"
	"github.com/tare-mesh/tare/internal/metric"
	"github.com/tare-mesh/tare/internal/result"
	"github.com/tare-mesh/tare/internal/show/page"
	"github.com/tare-mesh/tare/test/answertest"
	"github.com/tare-mesh/tare/test/must"
)

// drawn writes a study, and reads the data of its page's figures. The directory is closed with the test.
func drawn(t *testing.T, s answertest.Study, data any) *result.Dir {
	t.Helper()
	d := s.Write(t, filepath.Join(t.TempDir(), "run"))
	t.Cleanup(func() { _ = d.Close() })
	r := must.Get(answer.Analyze(d, compare.Options{}))(t)
	text := must.Get(page.Data(page.Source{Analysis: answer.Analysis{Report: r, Dir: d}}))(t)
	must.OK(t, json.Unmarshal(text, data))
	return d
}

// The cells of the heat map are the answers of the latency log.
func TestHeatHasEveryAnswer(t *testing.T) {
	s := answertest.Quickstart()
	s.Blocks, s.Warmup, s.Measure, s.Rate = 2, 1, 3, 100
	var data struct {
		Heat []struct {
			Trial     string
			From      float64
			PerDecade float64
			Cells     [][3]float64
		}
	}
	d := drawn(t, s, &data)
	records, err := d.Records()
	if err != nil || len(data.Heat) != len(records) {
		t.Fatalf("%d of %d trials: %v", len(data.Heat), len(records), err)
	}
	for i, h := range data.Heat {
		of, err := figures.ResponseTimes(d, &records[i])
		if err != nil || h.Trial != records[i].ID {
			t.Fatalf("%s, %s: %v", h.Trial, records[i].ID, err)
		}
		var n, below float64
		median := float64(of.ValueAtQuantile(50)) / 1e6
		for _, c := range h.Cells {
			if c[0] < 1 || c[0] >= 4 {
				continue // of the warm-up
			}
			n += c[2]
			if h.From*math.Pow(10, (c[1]+1)/h.PerDecade) <= median {
				below += c[2]
			}
		}
		if n != float64(of.TotalCount()) {
			t.Errorf("%s: %v answers, want %d", h.Trial, n, of.TotalCount())
		}
		if below > n/2 || below == 0 {
			t.Errorf("%s: %v of %v answers in bins below the median", h.Trial, below, n)
		}
	}
}

// The looks are those at the gate of the report, also if it is not the gate of the run, or has another attribution of tasks.
func TestLooksOfAnotherGate(t *testing.T) {
	gated := short(t, 3, 6, 180, gatedFile)
	for words, o := range map[string]compare.Options{
		"CPU/request, total < +50%": {Gates: []string{"cpu_us_per_request/total < +50%"}, LastLook: true},
		"CPU/request, application < +50%": {Gates: []string{"cpu_us_per_request/app < +50%"}, LastLook: true, Attribute: func(task mesh.Task) mesh.Task {
			task.Plane = metric.App
			return task
		}},
	} {
		t.Run(words, func(t *testing.T) { checkLooks(t, gated, o, words) })
	}
}

// checkLooks compares the last look of a page with the decision of its report, and the words for its gate.
func checkLooks(t *testing.T, gated *result.Dir, o compare.Options, words string) {
	t.Helper()
	r, err := answer.Analyze(gated, o)
	if err != nil || len(r.Decisions) != 1 {
		t.Fatalf("%d decisions: %v", len(r.Decisions), err)
	}
	text := must.Get(page.Data(page.Source{Analysis: answer.Analysis{Report: r, Dir: gated, Options: o}}))(t)
	var data struct {
		Looks []struct {
			Gate  string
			Looks []struct {
				Estimate float64
				Outcome  string
			}
		}
	}
	if err := json.Unmarshal(text, &data); err != nil || len(data.Looks) != 1 || data.Looks[0].Gate != words {
		t.Fatalf("%+v, %v", data, err)
	}
	all, want := data.Looks[0].Looks, r.Decisions[0]
	if last := all[len(all)-1]; want.Change == nil || last.Estimate != want.Change.Estimate || last.Outcome != string(want.Outcome) {
		t.Errorf("the last look is %+v, the decision %+v", last, want)
	}
}

// The course of memory is drawn where it grows, and sums the tasks of a plane.
func TestMemoryIsDrawnWhereItGrows(t *testing.T) {
	for _, grows := range []bool{true, false} {
		s := answertest.Quickstart()
		s.Blocks = 3
		s.Change = func(r *result.Record) {
			for i := range r.Tasks {
				r.Tasks[i].End.Peak = 64 << 20
				for second := range 5 {
					rss := int64(20 << 20)
					if grows && r.Tasks[i].Plane == metric.Data {
						rss += int64(second) * (1<<20 + int64(r.Block)<<10) // equal slopes have no interval
					}
					r.Tasks[i].Memory = append(r.Tasks[i].Memory, result.MemoryReading{Seconds: float64(second), RSS: rss})
				}
			}
		}
		var data struct {
			Memory []struct {
				Treatment, Plane string
				Block            int
				Points           [][2]float64
			}
		}
		drawn(t, s, &data)
		if is := len(data.Memory) > 0; is != grows {
			t.Errorf("memory grows: %v, and is drawn: %v", grows, is)
		}
		for _, m := range data.Memory {
			if last := m.Points[len(m.Points)-1]; m.Plane == "data plane" && last != [2]float64{4, 48.0234375} && m.Block == 3 {
				t.Errorf("%s ends with %v, want second 4 and two sidecars of 24 MiB and 12 KiB", m.Treatment, last)
			}
		}
	}
}

// changing is a study with 40 route changes a trial, of which every fourth has a failed request 3 ms later. With the proxy
// they take 20 ms longer.
func changing() answertest.Study {
	s := answertest.Quickstart()
	s.Blocks = 4
	s.Change = func(r *result.Record) {
		for i := range 40 {
			at := 5 + float64(i)/10 + float64(r.Block)
			if r.Treatment != "none" {
				at += 20
			}
			before := at + 1
			sent := 0.25 * float64(i+1)
			c := result.Change{Kind: "route-changed", Version: i + 1, DueSeconds: sent, SentSeconds: sent, AcceptedSeconds: sent, Probes: 100,
				FirstNew: &result.Span{BeforeMS: &at}, LastOld: &result.Span{AfterMS: at, BeforeMS: &before}}
			c.CPU = &result.ChangeCPU{Seconds: [2]float64{0.125, 0.125}, NS: map[metric.Plane][2]int64{metric.App: {3e6 + int64(r.Block)*1e5, 2e6}}}
			if i%4 == 0 {
				c.Failed, c.FailedMS = 1, []float64{3}
			}
			r.Changes = append(r.Changes, c)
		}
	}
	return s
}

func TestChangesAreDrawn(t *testing.T) {
	var data struct {
		ChangesMade []struct {
			Treatment, Kind string
			Changes         int
			Times           [][2]float64
			Band, Failed    [][3]float64
		}
	}
	drawn(t, changing(), &data)
	if len(data.ChangesMade) < 2 {
		t.Fatalf("%d treatments with changes", len(data.ChangesMade))
	}
	for _, c := range data.ChangesMade {
		added := 0.0
		if c.Treatment != "none" {
			added = 20
		}
		if first, last := c.Times[0], c.Times[len(c.Times)-1]; first[0] < 6+added || first[0] > 7+added || math.Abs(first[1]*float64(c.Changes)-1) > 1e-9 || last[1] < 1-1e-6 || last[0] > 14+added {
			t.Errorf("%s: the distribution goes from %v to %v", c.Treatment, first, last)
		}
		if len(c.Band) != 19 || c.Band[9][1] > 10+added || c.Band[9][2] < 9+added {
			t.Errorf("%s: the band has %d quantiles, the median's is %v", c.Treatment, len(c.Band), c.Band)
		}
		if want := [3]float64{3, 4, 0.25}; len(c.Failed) != 4 || c.Failed[3] != want {
			t.Errorf("%s: failures are %v, want the last %v", c.Treatment, c.Failed, want)
		}
	}
}
