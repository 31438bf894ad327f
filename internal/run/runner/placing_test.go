package runner

import (
	"math"
	"testing"
	"time"

	"github.com/tare-mesh/tare/internal/experiment/mesh"
	"github.com/tare-mesh/tare/internal/metric"
	"github.com/tare-mesh/tare/internal/result"
	"github.com/tare-mesh/tare/internal/stats"
	"github.com/tare-mesh/tare/test/difftest"
	"github.com/tare-mesh/tare/test/statstest"
)

// Work that is flushed every few seconds costs what it costs, in the mean over runs, and what a block has of it by chance is in
// the interval. With a fixed time before the measure phase, all blocks have a flush too few.
func TestPeriodicFlushes(t *testing.T) {
	const (
		us              = time.Microsecond
		blocks          = 8
		warmup, measure = 6 * time.Second, 24 * time.Second
		row             = simMembers * simSlice
		want            = 500.0 // µs a request, of which 200 are flushed
	)
	runs := uint64(statstest.Rounds(t, 25, 100))
	var missed float64
	for name, c := range map[string]struct {
		period time.Duration
		start  time.Duration // of the task's clock before the load, 0: with the load
	}{
		"1 s since the start":    {time.Second, 1300 * time.Millisecond},
		"5 s since the start":    {5 * time.Second, 2 * time.Second},
		"7 s since the start":    {7 * time.Second, 3300 * time.Millisecond},
		"5 s since the requests": {5 * time.Second, 0},
		"7 s since the requests": {7 * time.Second, 0},
	} {
		costs := func(seed uint64, placed bool) (all []float64) {
			r := run{bursts: map[string][]float64{}, quiet: map[string]quietTried{}}
			for block := range blocks {
				before, wait := warmup, time.Duration(0)
				if placed {
					rows, w := place(seed*blocks+uint64(block), warmup, r.period).split(row)
					before, wait = time.Duration(rows)*row, w
				}
				clock := c.start + wait
				if c.start == 0 {
					clock = 0
				}
				m, _ := simulate(work{request: 300 * us, deferred: 200 * us, flush: c.period, clock: clock}, before, measure)
				cost, _, _, _, s := costOf(m)
				all = append(all, cost)
				if b := m.bursts(s.cost); fewBursts(seen{bursts: b}) != "" {
					r.period = max(r.period, min(b.period, maxPeriod))
				}
			}
			return all
		}
		missed = max(missed, math.Abs(stats.Mean(costs(0, false))-want))
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var sum float64
			held := uint64(0)
			for seed := range runs {
				all := costs(seed, true)
				sum += stats.Mean(all)
				if !stats.MeanInterval(all, 0.95).Excludes(want) {
					held++
				}
			}
			if mean := sum / float64(runs); math.Abs(mean-want) > 0.01*want {
				t.Errorf("%.1f µs in the mean over runs, want %.0f", mean, want)
			}
			if held < runs*8/10 {
				t.Errorf("the intervals of %d of %d runs hold %.0f µs", held, runs, want)
			}
		})
	}
	if missed < 33 {
		t.Errorf("with a fixed time before the measure phase the largest error is %.1f µs: the simulation has no flush too few", missed)
	}
}

// The time is drawn from the seed, and its mean is the warm-up of the plan, but for bursts with a longer period.
func TestPlace(t *testing.T) {
	for name, c := range map[string]struct{ planned, period, least, most, mean time.Duration }{
		"no bursts":     {6 * time.Second, 0, 3 * time.Second, 9 * time.Second, 6 * time.Second},
		"short period":  {6 * time.Second, time.Second, 3 * time.Second, 9 * time.Second, 6 * time.Second},
		"long period":   {6 * time.Second, 7 * time.Second, 7 * time.Second, 14 * time.Second, 10500 * time.Millisecond},
		"middle period": {6 * time.Second, 4 * time.Second, 4 * time.Second, 8 * time.Second, 6 * time.Second},
	} {
		var sum time.Duration
		const n = 2000
		for seed := range uint64(n) {
			p := place(seed, c.planned, c.period)
			if again := place(seed, c.planned, c.period); again != p {
				t.Fatalf("%s: %v and %v of one seed", name, p, again)
			}
			if p.drawn < c.least || p.drawn > c.most {
				t.Errorf("%s: %v, want %v to %v", name, p.drawn, c.least, c.most)
			}
			sum += p.drawn
			units, wait := p.split(time.Second)
			if d := time.Duration(units)*time.Second + wait; units < 1 {
				t.Errorf("%s: %v is %d s and %v", name, p.drawn, units, wait)
			} else if differ := difftest.Wrong("wait < 0", wait < 0, "wait >= time.Second", wait >= time.Second, "d != p.drawn", d != p.drawn); differ != "" {
				t.Errorf("%s: %s: %v is %d s and %v", differ, name, p.drawn, units, wait)
			}
		}
		mean := sum / n
		if off := mean - c.mean; off < -c.mean/20 || off > c.mean/20 {
			t.Errorf("%s: %v in the mean, want %v", name, mean, c.mean)
		}
		if p := place(1, c.planned, c.period); p.delay() != c.mean-c.planned {
			t.Errorf("%s: %v longer than planned, want %v", name, p.delay(), c.mean-c.planned)
		}
	}
}

// Bursts of a treatment in two of its trials, and in half of them, have a period. A single one may be of the machine.
func TestLearnedPeriod(t *testing.T) {
	r := run{bursts: map[string][]float64{}, quiet: map[string]quietTried{}}
	for _, c := range []struct {
		treatment string
		seconds   float64
		want      time.Duration
	}{
		{"a", 5, 0}, {"b", 9, 0}, {"b", 0, 0}, {"a", 5.1, 5100 * time.Millisecond}, {"b", 0, 5100 * time.Millisecond},
		{"b", 9, 9 * time.Second}, {"b", 0, 9 * time.Second}, {"a", 3600, 9 * time.Second}, {"c", 3600, 9 * time.Second}, {"c", 3600, maxPeriod},
	} {
		if r.learn(&result.Record{Treatment: c.treatment, BurstSeconds: c.seconds}); r.period != c.want {
			t.Errorf("%v after bursts of %s every %v s, want %v", r.period, c.treatment, c.seconds, c.want)
		}
	}
}

// A treatment with unclear CPU in the slices of others has more time without requests before its load. It is kept if the program
// works in it.
func TestQuietTime(t *testing.T) {
	trial := func(idle, deferred int64) *result.Record {
		return &result.Record{Treatment: "a", Tasks: []result.TaskUsage{{Task: mesh.Task{ID: "app", Plane: metric.App}, IdleCPU: &idle, DeferredCPU: &deferred,
			End: result.Reading{CPU: 100}}}}
	}
	for name, c := range map[string]struct {
		trials []*result.Record
		want   []time.Duration
	}{
		"clear":                  {[]*result.Record{trial(50, 5), trial(50, 10)}, []time.Duration{0, 0}},
		"a timer of half a s":    {[]*result.Record{trial(0, 20), trial(20, 1), trial(19, 2)}, []time.Duration{time.Second, time.Second, time.Second}},
		"a timer of two s":       {[]*result.Record{trial(0, 20), trial(0, 30), trial(15, 20), trial(15, 20)}, []time.Duration{time.Second, 3 * time.Second, 3 * time.Second, 3 * time.Second}},
		"deferred, without idle": {[]*result.Record{trial(0, 20), trial(0, 30), trial(1, 20), trial(0, 20)}, []time.Duration{time.Second, 3 * time.Second, time.Second, time.Second}},
		"not interleaved":        {[]*result.Record{{Treatment: "a"}}, []time.Duration{0}},
	} {
		r := run{bursts: map[string][]float64{}, quiet: map[string]quietTried{}}
		for i, of := range c.trials {
			if r.learn(of); r.quietTime() != c.want[i] {
				t.Errorf("%s: %v after trial %d, want %v", name, r.quietTime(), i+1, c.want[i])
			}
		}
	}
}

// A flush that lasts over several slices, among them own ones, is one burst.
func TestLongFlush(t *testing.T) {
	var uses []use
	for at := time.Duration(0); at < 12*time.Second; at += 200 * time.Millisecond {
		u := use{ns: 1e5, at: at, time: 100 * time.Millisecond}
		if at%(5*time.Second) < 700*time.Millisecond {
			u.ns = 8e7
		}
		uses = append(uses, u)
	}
	if b := burstsIn(uses, 1e9, 12*time.Second); b.count != 3 || b.period != 5*time.Second {
		t.Errorf("%d bursts every %v, want 3 every 5s", b.count, b.period)
	}
}
