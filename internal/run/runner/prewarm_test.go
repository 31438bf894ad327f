package runner

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/tare-mesh/tare/internal/base/must"
	"github.com/tare-mesh/tare/internal/result"
)

// costsOf are the parts of a phase with 100 requests each, whose cost in µs is at's, with a deviation as a share of it.
func costsOf(r *rand.Rand, deviation float64, at func(part float64) float64) (parts []spent) {
	for i := range fallParts {
		parts = append(parts, spent{int64(1e5 * at(float64(i)) * math.Exp(deviation*r.NormFloat64())), 100})
	}
	return parts
}

// A program that becomes cheaper by a third is found, and of steady ones at most one of a thousand is.
func TestFall(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 6))
	const n = 2000
	for name, c := range map[string]struct {
		at          func(float64) float64
		deviation   float64
		least, most float64 // share of the programs that are found
	}{
		"steady, quiet":      {func(float64) float64 { return 500 }, 0.03, 0, 0.001},
		"steady, noisy":      {func(float64) float64 { return 500 }, 0.15, 0, 0.003},
		"rises":              {func(i float64) float64 { return 500 + 30*i }, 0.03, 0, 0},
		"falls by a third":   {func(i float64) float64 { return 900 - 43*i }, 0.03, 0.99, 1},
		"falls, as measured": {func(i float64) float64 { return 600 + 3000*math.Exp(-i/4) }, 0.1, 0.95, 1},
	} {
		found := 0
		for range n {
			if f := fallOf(costsOf(r, c.deviation, c.at)); f.surely(fallCertain) && f.share > visibleFall {
				found++
			}
		}
		if share := float64(found) / n; share < c.least || share > c.most {
			t.Errorf("%s: found in %v, want %v to %v", name, share, c.least, c.most)
		}
	}
	exact := fallOf(costsOf(r, 0, func(i float64) float64 { return 1000 * math.Exp(-i/10) }))
	if want := 1 - math.Exp(-0.7); math.Abs(exact.share-want) > 1e-4 || exact.p > 1e-9 {
		t.Errorf("%+v, planted %v", exact, want)
	}
	if f := fallOf(costsOf(r, 0, func(i float64) float64 { return 1000 - i })[:leastParts-1]); f.surely(1) {
		t.Errorf("too few parts: %+v", f)
	}
}

// A cold start is found beside bursts, and the first request of each connection is none.
func TestColdStart(t *testing.T) {
	r := rand.New(rand.NewPCG(7, 8))
	flat := costsOf(r, 0.1, func(float64) float64 { return 1000 })
	bursts := costsOf(r, 0.1, func(i float64) float64 { return 1000 + 12000*math.Max(0, math.Sin(i*5)) })
	for name, c := range map[string]struct {
		before spent
		parts  []spent
		want   bool
	}{
		"steady":                {spent{100e6, 100}, flat, false},
		"cold":                  {spent{400e6, 100}, flat, true},
		"cold beside bursts":    {spent{400e6, 100}, bursts, true},
		"handshakes":            {spent{110e6, 20}, flat, false},
		"a little more":         {spent{1700e6, 1000}, flat, false},
		"no requests before":    {spent{400e6, 0}, flat, false},
		"too few parts":         {spent{400e6, 100}, flat[:4], false},
		"nothing was measured":  {spent{400e6, 100}, nil, false},
		"parts without answers": {spent{400e6, 100}, make([]spent, 8), false},
	} {
		if times, cold := coldStart(c.before, c.parts); cold != c.want {
			t.Errorf("%s: %v times, cold: %v", name, times, cold)
		}
	}
}

// Loads go on, each with as many requests as all before, until the last two agree.
func TestIsSteady(t *testing.T) {
	load := func(requests int64, micros ...float64) (all []result.PrewarmLoad) {
		for _, us := range micros {
			all = append(all, result.PrewarmLoad{Requests: requests, CPUMicros: us})
		}
		return all
	}
	for _, c := range []struct {
		loads []result.PrewarmLoad
		want  bool
	}{
		{load(500, 900, 900, 900, 900), false}, // at other rates
		{load(500, 900, 900, 900, 900, 872), false},
		{load(500, 900, 900, 900, 900, 874), true},
		{load(500, 900, 900, 900, 900, 1000), true},
		{load(50, 900, 900, 900, 900, 900), false},
		{load(500, 900, 900, 900, 900, 900, 800), false},
	} {
		if got := isSteady(&result.Prewarm{Loads: c.loads}); got != c.want {
			t.Errorf("%+v: %v", c.loads, got)
		}
	}
	w := prewarmer{}
	p := &result.Prewarm{}
	for _, want := range []int64{100, 100, 200, 400} {
		got := w.next(p)
		if got != want {
			t.Errorf("next load after %d requests: %d, want %d", p.Requests, got, want)
		}
		p.Requests, p.Loads = p.Requests+got, append(p.Loads, result.PrewarmLoad{Requests: got})
	}
	w.requests = 4000
	if got := w.next(nil); got != 250 {
		t.Errorf("the first load, where an earlier block needed 4000: %d", got)
	}
}

// Loads are faster than planned while the processors and the busiest task keep up: a program with one thread would be
// overloaded on a machine with many processors.
func TestPace(t *testing.T) {
	for _, c := range []struct {
		processors, cores, busiest float64
		members                    int
		want                       float64
	}{
		{16, 0.3, 0.01, 3, 5},        // fastest
		{16, 0.9, 0.35, 3, 2},        // one thread
		{16, 2, 0.9, 3, 1},           // one thread, as planned
		{2, 0.5, 0.1, 3, 2},          // half of the processors
		{2, 4, 0.9, 3, 1.0 / 3},      // as busy as with one member at a time
		{16, 6, 3, 2, 1},             // several threads, as planned
		{16, 0.9, 0, 3, 5},           // without readings of tasks
		{16, 0.9, 0.7 / 4.5, 3, 4.5}, // between
	} {
		if got := pace(c.processors, c.cores, c.busiest, c.members); math.Abs(got-c.want) > 1e-9 {
			t.Errorf("%+v: %v", c, got)
		}
	}
	all, busiest := usedBetween(map[string]int64{"app": 100, "gone": 50}, map[string]int64{"app": 400, "new": 40})
	if all != 340 || busiest != 300 {
		t.Errorf("used %v, the busiest %v", all, busiest)
	}
}

// No load is longer than the limit that was announced, however low the rate is.
func TestPrewarmTime(t *testing.T) {
	for _, c := range []struct {
		rate, before float64
		requests     int64
		want         time.Duration
	}{
		{100, 0, 100, time.Second},
		{200, 3, 1000, 5 * time.Second},
		{1, 0, 100, 10 * time.Second},
		{10000, 0, 100, prewarmLength},
		{5000, 9, 1 << 20, 10 * time.Second},
		{0, 0, 100, prewarmLength},
		{0, 4, 100, 4 * time.Second},
		{0, 40, 100, 10 * time.Second},
	} {
		if got := prewarmTime(c.rate, c.before, c.requests, 10*time.Second); got != c.want {
			t.Errorf("%+v: %v", c, got)
		}
	}
}

// The warning has the time that the program needs. Programs measured cold on purpose have none.
func TestNotWarm(t *testing.T) {
	falling := &result.Prewarm{Seconds: 57, Loads: []result.PrewarmLoad{{Requests: 1000, CPUMicros: 1000}, {Requests: 1000, CPUMicros: 880}}}
	for _, c := range []struct {
		s    seen
		want string
	}{
		{seen{fall: fall{share: 0.3, p: 1e-5}}, "fell by 30 % within the measure phase, after 3s of load: the program is warm after about 48s"},
		{seen{fall: fall{share: 0.3, p: 0.005}}, ""},
		{seen{fall: fall{share: 0.05, p: 1e-5}}, ""},
		{seen{fall: fall{share: 0.3, p: 1e-5}, cold: true}, ""},
		{seen{record: &result.Record{Prewarm: falling}}, "still fell, from 1000 to 880 µs, after 1m0s of load (the limit): the program is warm after about 4m0s"},
		{seen{record: &result.Record{Prewarm: &result.Prewarm{Seconds: 57, Loads: []result.PrewarmLoad{{Requests: 100, CPUMicros: 500}, {Requests: 100, CPUMicros: 510}}}}}, "1m0s of load (the limit) had too few requests to show"},
		{seen{record: &result.Record{Prewarm: &result.Prewarm{Steady: true}}}, ""},
	} {
		if c.s.record == nil {
			c.s.record = &result.Record{}
		}
		c.s.load = &result.Load{WarmupSeconds: 3}
		got := notWarm(c.s)
		if (got == "") != (c.want == "") {
			t.Errorf("%q, want %q", got, c.want)
		}
		must.Contain(t, got, c.want)
	}
	if got := untilWarm(10*time.Second, 0.05); got != 20*time.Second {
		t.Errorf("after a fall of 5 %%: %v", got)
	}
}
