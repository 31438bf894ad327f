package runner

import (
	"math"
	"math/rand/v2"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"testing"
	"time"

	"github.com/tare-mesh/tare/internal/result"
	"github.com/tare-mesh/tare/test/must"
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

// What the loads before the first trial of each treatment have shown holds for all later trials, of a resumed run too.
func TestPrewarmerLearns(t *testing.T) {
	load := func(rate, us float64) result.PrewarmLoad {
		return result.PrewarmLoad{Requests: 500, Rate: rate, CPUMicros: us}
	}
	loads := func(second, last result.PrewarmLoad) *result.Prewarm {
		return &result.Prewarm{Steady: true, Requests: 2500, Loads: []result.PrewarmLoad{load(20, 9000), second, load(80, 500), load(80, 500), last}}
	}
	unsteady := loads(load(20, 900), load(20, 500))
	unsteady.Steady = false
	later := loads(load(20, 900), load(20, 500))
	later.Loads = append(later.Loads, load(160, 90), load(160, 90)) // after the comparison
	for name, c := range map[string]struct {
		p      *result.Prewarm
		on     bool
		enough bool // 1900 requests, a twentieth less than before the last load, in a later trial
	}{
		"warm at once":          {loads(load(20, 610), load(20, 500)), false, false},
		"cold":                  {loads(load(20, 630), load(20, 500)), true, true},
		"cold, and loaded on":   {later, true, true},
		"cheaper when faster":   {loads(load(20, 900), load(80, 500)), false, false},
		"cold beyond the limit": {unsteady, true, false},
		"not steady, not cold":  {&result.Prewarm{Loads: []result.PrewarmLoad{load(20, 500), load(20, 500), load(20, 500), load(20, 480)}}, false, false},
		"too few loads":         {&result.Prewarm{Steady: true, Loads: []result.PrewarmLoad{load(20, 900), load(20, 900), load(20, 300)}}, false, false},
		"without loads":         {nil, false, false},
	} {
		w := prewarmer{}
		w.learn(&result.Record{Treatment: "app", Prewarm: c.p})
		w.learn(&result.Record{Treatment: "other"})
		if w.on != c.on || w.looked["app"] != (c.p != nil) || w.looked["other"] {
			t.Errorf("%s: %+v", name, w)
		}
		if w.enough(&result.Prewarm{Requests: 1900}) != c.enough || w.enough(&result.Prewarm{Requests: 1899}) {
			t.Errorf("%s: enough: %+v", name, w)
		}
	}
}

// javaLoads are the loads of a Java server, up to the short one that compares with the beginning and the next.
func javaLoads(before, last float64) []result.PrewarmLoad {
	return []result.PrewarmLoad{{Requests: 200, Rate: 200, CPUMicros: 2218}, {Requests: 100, Rate: 200, CPUMicros: 2509}, {Requests: 300, Rate: 200, CPUMicros: 2230},
		{Requests: 600, Rate: 200, CPUMicros: 1425}, {Requests: 1200, Rate: 344, CPUMicros: 768}, {Requests: 8000, Rate: 344, CPUMicros: before},
		{Requests: 100, Rate: 200, CPUMicros: 490}, {Requests: 10000, Rate: 344, CPUMicros: last}}
}

// Loads go on until the last two, at one rate, agree.
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
		{load(500, 900, 900, 900), false}, // too few
		{load(500, 900, 900, 900, 872), false},
		{load(500, 900, 900, 900, 874), true},
		{load(500, 900, 900, 900, 1000), true},
		{load(50, 900, 900, 900, 900), false},
		{load(500, 900, 900, 900, 900, 800), false},
		{append(load(500, 900, 900, 900), result.PrewarmLoad{Requests: 500, CPUMicros: 900, Rate: 200}), false}, // at another rate
		{javaLoads(707, 748), true}, // a short load at the first rate between them
		{javaLoads(707, 680), false},
		{javaLoads(707, 748)[:7], false}, // ends with the short one
	} {
		if got := isSteady(&result.Prewarm{Loads: c.loads}); got != c.want {
			t.Errorf("%+v: %v", c.loads, got)
		}
	}
	for _, c := range []struct {
		requests int64
		cpu      time.Duration // of all loads
		want     bool
	}{{19_999, 14999 * time.Millisecond, false}, {20_000, time.Second, true}, {2000, 15001 * time.Millisecond, true}} {
		p := result.Prewarm{Requests: c.requests}
		for range 4 {
			p.Loads = append(p.Loads, result.PrewarmLoad{Requests: c.requests / 4, CPUMicros: float64(c.cpu.Microseconds()) / 4 / float64(c.requests/4)})
		}
		if isCompiled(&p) != c.want {
			t.Errorf("%+v: %v", c, !c.want)
		}
	}
}

// A program whose code is compiled late has a thread of a compiler's name.
func TestCompilesLate(t *testing.T) {
	if compilesLate(os.Getpid()) || compilesLate(-1) {
		t.Error("a Go program compiles late")
	}
	if runtime.GOOS != "linux" {
		t.Skip("names of threads are Linux's")
	}
	cmd := exec.Command("sh", "-c", `printf 'C2 CompilerThre' >/proc/$$/comm; echo; read end`)
	in, err := cmd.StdinPipe()
	must.OK(t, err)
	out, err := cmd.StdoutPipe()
	must.OK(t, err)
	must.OK(t, cmd.Start())
	_, err = out.Read(make([]byte, 1))
	must.OK(t, err)
	if !compilesLate(cmd.Process.Pid) {
		t.Error("a thread of HotSpot's name is not found")
	}
	must.OK(t, in.Close())
	_ = cmd.Wait()
}

// Loads are faster than planned while the processors and the busiest task keep up: a program with one thread would be
// overloaded on a machine with many processors.
func TestPace(t *testing.T) {
	for _, c := range []struct {
		processors, cores, busiest float64
		members                    int
		want                       float64
	}{
		{16, 0.01, 0.01, 3, fastest},
		{16, 0.9, 0.35, 3, 2},        // one thread
		{16, 2, 0.9, 3, 1},           // one thread, as planned
		{2, 0.5, 0.1, 3, 2.8},        // seven tenths of the processors
		{2, 5, 0.9, 3, 1.0 / 3},      // as busy as with one member at a time
		{16, 6, 3, 2, 1},             // several threads, as planned
		{16, 0.9, 0, 3, 11.2 / 0.9},  // without readings of tasks
		{16, 0, 0, 3, 1},             // without any
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

// A load of seconds has requests, however rare they are.
func TestFirstPace(t *testing.T) {
	for rate, want := range map[float64]float64{0: 1, 1: 10.0 / 3, 0.1: 100.0 / 3, 100: 1} {
		if got := firstPace(rate); math.Abs(got-want) > 1e-9 {
			t.Errorf("%v requests/s: %v", rate, got)
		}
	}
}

// A pace rises as a program becomes warm, remains while it fits, and falls for good if the program does not keep up.
func TestPacer(t *testing.T) {
	for _, loads := range [][]paced{
		{
			{20, false, false, 4}, {20, false, false, 16}, {20, false, false, 16}, {12, false, false, 16}, {30, false, false, 30},
			{40, true, false, 15}, {40, false, false, 15}, {5, false, false, 5}, {40, false, false, 15}, {0.5, false, false, 0.5},
			{3, true, false, 0.5}, {3, false, false, 0.5},
		},
		// Later it changes less, so that loads can be compared.
		// A cold program that did not keep up at first does so later.
		{{0.5, true, false, 0.5}, {0.9, false, false, 0.9}, {1.1, false, false, 0.9}, {3, false, true, 3}, {6, true, true, 1.5}},
		{{4, false, false, 4}, {5.9, false, true, 4}, {1, false, true, 4}, {9, false, true, 9}, {1, true, true, 1}},
	} {
		p := pacer{faster: 1, most: fastest}
		for i, c := range loads {
			if p.next(c.fits, c.strained, c.settled); p.faster != c.want {
				t.Errorf("load %d, %+v: %v", i+1, c, p.faster)
			}
		}
	}
}

// paced is the pace after a load.
type paced struct {
	fits              float64
	strained, settled bool
	want              float64
}

// A program that queues requests, or fails some, does not keep up.
func TestStrained(t *testing.T) {
	for _, c := range []struct {
		intended, waiting, failed int64
		want                      bool
	}{
		{100, 30, 0, false}, {100, 31, 0, true}, {1000, 44, 0, false}, {1000, 211, 0, true}, {1000, 0, 10, false}, {1000, 0, 11, true},
	} {
		l := result.Load{Intended: c.intended, BacklogEnd: &c.waiting, Classes: map[string]int64{"2xx": c.intended - c.failed, "status": c.failed}}
		if strained(&l) != c.want {
			t.Errorf("%+v: %v", c, !c.want)
		}
	}
	if strained(&result.Load{Intended: 100, Classes: map[string]int64{"2xx": 100}}) {
		t.Error("without a count of what waits")
	}
}

// A load has a number of requests, and lasts long enough to be read.
func TestLoadTime(t *testing.T) {
	for _, c := range []struct {
		rate, before float64
		requests     int64
		want         time.Duration
	}{
		{100, 0, 100, time.Second},
		{200, 3, 1000, 5 * time.Second},
		{1, 0, 100, 100 * time.Second},
		{10000, 0, 100, prewarmLength},
		{0, 0, 100, prewarmLength},
		{0, 4, 100, 4 * time.Second},
	} {
		if got := loadTime(c.rate, c.before, c.requests); got != c.want {
			t.Errorf("%+v: %v", c, got)
		}
	}
}

// The warning has the time that the program needs. Programs measured cold on purpose have none.
func TestNotWarm(t *testing.T) {
	falling := &result.Prewarm{Seconds: 57, Loads: []result.PrewarmLoad{{Requests: 1000, CPUMicros: 1000}, {Requests: 1000, CPUMicros: 880}}}
	compared := &result.Prewarm{Seconds: 57, Loads: append(slices.Clone(falling.Loads), result.PrewarmLoad{Requests: 100, Rate: 20, CPUMicros: 400})}
	for _, c := range []struct {
		s    seen
		want string
	}{
		{seen{fall: fall{share: 0.3, p: 1e-5}}, "fell by 30 % within the measure phase, after 3s of load: the program is warm after about 48s"},
		{seen{fall: fall{share: 0.3, p: 0.005}}, ""},
		{seen{fall: fall{share: 0.05, p: 1e-5}}, ""},
		{seen{fall: fall{share: 0.3, p: 1e-5}, cold: true}, ""},
		{seen{record: &result.Record{Prewarm: compared}}, "still fell, from 1000 to 880 µs, after 1m0s of load (the limit)"},
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
