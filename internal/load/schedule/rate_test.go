package schedule

import (
	"math"
	"strings"
	"testing"
	"time"

	"github.com/tare-mesh/tare/internal/load"
	"github.com/tare-mesh/tare/test/difftest"
)

// perSecond counts p's starts in each of the first n seconds.
func perSecond(p load.Profile, n int) []int {
	counts := make([]int, n)
	for s := New(&p, 0, 1); ; {
		at := s.Next()
		if at >= int64(n)*1e9 {
			return counts
		}
		counts[at/1e9]++
	}
}

func TestRatesThatChange(t *testing.T) {
	second := time.Second
	for _, test := range []struct {
		name string
		p    load.Profile
		want []int // expected per second
	}{
		{"steps", load.Profile{Segments: []load.Segment{{For: 2 * second, From: 100, To: 100}, {For: 2 * second, From: 300, To: 300}}}, []int{100, 100, 300, 300, 300}},
		{"a pause", load.Profile{Segments: []load.Segment{{For: second, From: 100, To: 100}, {For: second, From: 0, To: 0}, {For: second, From: 100, To: 100}}}, []int{100, 0, 100, 100}},
		{"up", load.Profile{Segments: []load.Segment{{For: 4 * second, From: 0, To: 400}}}, []int{50, 150, 250, 350, 400}},
		{"down to nothing", load.Profile{Segments: []load.Segment{{For: 2 * second, From: 200, To: 0}}}, []int{150, 50, 0}},
	} {
		for _, arrivals := range []string{load.Constant, load.Uniform, load.Poisson} {
			p := test.p
			p.Arrivals, p.Seed = arrivals, 3
			got := perSecond(p, len(test.want))
			for i, n := range got {
				allowed := 1.0
				if arrivals == load.Poisson {
					allowed = 5 * math.Sqrt(float64(test.want[i]))
				}
				if math.Abs(float64(n-test.want[i])) > allowed {
					t.Errorf("%s, %s: %v requests, want %v", test.name, arrivals, got, test.want)
					break
				}
			}
		}
	}
}

// Under a rate that changes, Poisson arrivals are Poisson on the axis of requests.
func TestPoissonUnderRamps(t *testing.T) {
	const n = 20_000
	p := load.Profile{Rate: 1000, Repeat: 2, Arrivals: load.Poisson, Seed: 5,
		Segments: []load.Segment{{For: time.Second / 2, From: 100, To: 1900}, {For: time.Second / 2, From: 1900, To: 100}}}
	c := curve(&p)
	starts := all(p, 1, n)
	for i, at := range starts {
		starts[i] = int64(c.cumulated(float64(at)/1e9) * 1e6) // axis of requests, in millionths
	}
	if d := ksExponential(secondsBetween(starts), 1000); d > 1.36/math.Sqrt(n-1) {
		t.Errorf("KS distance %v", d)
	}
}

func TestUniformKeepsEachRequestInItsOwnInterval(t *testing.T) {
	for k, at := range all(load.Profile{Rate: 1000, Arrivals: load.Uniform, Seed: 1}, 3, 10_000) {
		if at < int64(k)*1e6 || at > int64(k+1)*1e6 {
			t.Fatalf("request %d at %d ns", k, at)
		}
	}
}

func TestWeightedTurns(t *testing.T) {
	p := load.Profile{Targets: []string{"a", "b", "c"}, Weights: []int{5, 1, 1}}
	var got strings.Builder
	for _, i := range Rotation(&p) {
		got.WriteString(p.Targets[i])
	}
	if got.String() != "aabacaa" {
		t.Errorf("turns %s", got.String())
	}
	assigned := Assign(p.Weights, 4)
	if len(assigned) != 4 {
		t.Errorf("assigned %v", assigned)
	} else if d := difftest.Of("assigned[0]", assigned[0], 0, "assigned[1]", assigned[1], 1, "assigned[2]", assigned[2], 2); d != "" {
		t.Errorf("%s: assigned %v", d, assigned)
	}
}

// Segments that repeat have the same requests in each cycle, without drift, after the
// segments before them.
func TestSegmentsRepeat(t *testing.T) {
	base := 100 * (1 - 4*0.1) / 0.9
	bursts := []load.Segment{{For: 4500 * time.Millisecond, From: base, To: base}, {For: 500 * time.Millisecond, From: 400, To: 400}}
	if mean := load.MeanRate(bursts); math.Abs(mean-100) > 1e-9 {
		t.Fatalf("mean of the bursts %v, want 100", mean)
	}
	p := load.Profile{Rate: 100, Arrivals: load.Constant, Repeat: 2,
		Segments: append([]load.Segment{{For: 2 * time.Second, From: 50, To: 50}}, bursts...)}
	counts := perSecond(p, 2+5*200)
	if counts[0] != 50 || counts[1] != 50 {
		t.Errorf("before the cycles: %v", counts[:2])
	}
	for cycle := range 200 {
		var sum int
		for _, n := range counts[2+5*cycle:][:5] {
			sum += n
		}
		last := counts[2+5*cycle+4]
		if d := difftest.Wrong("sum < 499", sum < 499, "sum > 501", sum > 501, "last < 232", last < 232, "last > 235", last > 235); d != "" {
			t.Fatalf("%s: cycle %d: %v", d, cycle, counts[2+5*cycle:][:5])
		}
	}
	for _, at := range []float64{0.5, 2, 3, 6.4, 6.6, 7, 7.1, 11.9, 502} {
		x := curve(&p).cumulated(at)
		if back := curve(&p).reach(x) / 1e9; math.Abs(back-at) > 1e-6 {
			t.Errorf("%v s: %v requests, reached at %v s", at, x, back)
		}
	}
}
