package record

import (
	"strings"
	"testing"
	"time"

	"github.com/tare-mesh/tare/internal/load"
	"github.com/tare-mesh/tare/internal/load/schedule"
	"github.com/tare-mesh/tare/test/difftest"
)

func TestGapDistance(t *testing.T) {
	all := func(p load.Profile) (starts []int64) {
		s := schedule.New(&p, 0, 1)
		for range 5000 {
			starts = append(starts, s.Next())
		}
		return starts
	}
	gapsOf := func(p load.Profile, late func(k int) int64) float64 {
		g := newGaps()
		for k, at := range all(p) {
			g.Add(at+late(k), at)
		}
		return g.distance()
	}
	for _, arrivals := range []string{load.Constant, load.Poisson} {
		p := load.Profile{Rate: 1000, Arrivals: arrivals, Seed: 1}
		if d := gapsOf(p, func(int) int64 { return 20_000 }); d > 0.01 {
			t.Errorf("%s, all 20 µs late: distance %v", arrivals, d)
		}
		if d := gapsOf(p, func(k int) int64 { return int64(k%3) * 5_000 }); d > 0.02 {
			t.Errorf("%s, up to 10 µs late: distance %v", arrivals, d)
		}
		// Sends gathered into one burst every ten milliseconds.
		bursts := newGaps()
		for _, at := range all(p) {
			bursts.Add((at/10e6+1)*10e6, at)
		}
		if d := bursts.distance(); d < 0.5 {
			t.Errorf("%s in bursts: distance %v", arrivals, d)
		}
	}
}

// Lateness is judged beside the times that it is part of.
func TestLatenessIsRelativeToTheTimes(t *testing.T) {
	for _, test := range []struct {
		name                    string
		median, ownP50, ownP99  float64 // µs
		limit, note, v1, warned string
	}{
		{"punctual", 300, 1, 20, "", "", "ok", ""},
		{"busy laptop", 140, 2, 600, "", "600 µs, which is part of the response times (median 140 µs)", "ok", "sent late"},
		{"slow server", 20_000, 2, 600, "", "", "ok", ""},
		{"grossly late", 140, 2, 10_500, "p99 lateness of the generator's own is 10.5 ms (limit 10.0 ms", "", "invalid: sent late", "sent late"},
		{"late beside a slow server", 20_000, 2, 15_000, "", "15000 µs", "ok", "sent late"},
		{"half of the time is the generator's", 140, 75, 300, "delayed half of the requests by 75 µs or more", "", "invalid: sent late", "sent late"},
		{"nothing succeeded", 0, 75, 20_000, "", "", "ok", ""},
	} {
		at := time.Unix(1_800_000_000, 0)
		r := load.Report{Loop: "open", MeasureStart: at, MeasureEnd: at.Add(time.Second), Verdict: "ok", Generator: load.Generator{OK: true},
			OwnLatenessUS: load.Quantiles{Count: 1000, P50: test.ownP50, P99: test.ownP99}, LatenessUS: load.Quantiles{Count: 1000, P99: test.ownP99}}
		if test.median > 0 {
			r.ResponseMS = load.Quantiles{Count: 1000, P50: test.median / 1e3}
		}
		judge(&r, &Totals{}, false)
		limits, notes := strings.Join(r.Generator.Limits, "\n"), strings.Join(r.Generator.Notes, "\n")
		if d := difftest.Wrong(`r.Generator.OK != (test.limit == "")`, r.Generator.OK != (test.limit == ""), "!strings.Contains(limits, test.limit)", !strings.Contains(limits, test.limit), `(test.limit == "") != (limits == "")`, (test.limit == "") != (limits == ""), "!strings.Contains(notes, test.note)", !strings.Contains(notes, test.note), `(test.note == "") != (notes == "")`, (test.note == "") != (notes == ""), "!strings.HasPrefix(r.Verdict, test.v1)", !strings.HasPrefix(r.Verdict, test.v1), `!strings.Contains(strings.Join(r.Warnings, "\n"), test.warned)`, !strings.Contains(strings.Join(r.Warnings, "\n"), test.warned)); d != "" {
			t.Errorf("%s: %s: %+v, verdict %q, warnings %q", d, test.name, r.Generator, r.Verdict, r.Warnings)
		}
	}
}

// A rate that the server or the connections miss is not a limit of the generator.
func TestMissedRateIsNotTheGenerators(t *testing.T) {
	at := time.Unix(1_800_000_000, 0)
	r := load.Report{Loop: "open", Intended: 1000, Completed: 500, MeasureStart: at, MeasureEnd: at.Add(time.Second), Verdict: "ok", Generator: load.Generator{OK: true}}
	if judge(&r, &Totals{}, false); !r.Generator.OK || !strings.HasPrefix(r.Verdict, "invalid: rate missed: 500 of 1000") {
		t.Errorf("%+v, verdict %q", r.Generator, r.Verdict)
	}
	r.ThreadCPURatio = 0.95
	if judge(&r, &Totals{}, false); r.Generator.OK || !strings.Contains(r.Generator.Limits[0], "95 % of a core") {
		t.Errorf("%+v", r.Generator)
	}
}

// Arrivals in bursts are a limit, small shifts a note.
func TestGapsAreJudged(t *testing.T) {
	for distance, want := range map[float64]string{0.05: "", 0.2: "note", 0.6: "limit"} {
		r := load.Report{GapDistance: distance, Verdict: "ok", Generator: load.Generator{OK: true}}
		judgeGaps(&r)
		if got := strings.Repeat("note", len(r.Generator.Notes)) + strings.Repeat("limit", len(r.Generator.Limits)); got != want || r.Generator.OK != (want != "limit") {
			t.Errorf("distance %v: %+v", distance, r.Generator)
		}
	}
}
