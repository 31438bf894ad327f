package loadgen

import (
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// perSecond counts p's starts in each of the first n seconds.
func perSecond(p Profile, n int) []int {
	counts := make([]int, n)
	for s := newSchedule(&p, nil, 0, 1); ; {
		at := s.next()
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
		p    Profile
		want []int // expected per second
	}{
		{"steps", Profile{Segments: []Segment{{2 * second, 100, 100}, {2 * second, 300, 300}}}, []int{100, 100, 300, 300, 300}},
		{"a pause", Profile{Segments: []Segment{{second, 100, 100}, {second, 0, 0}, {second, 100, 100}}}, []int{100, 0, 100, 100}},
		{"up", Profile{Segments: []Segment{{4 * second, 0, 400}}}, []int{50, 150, 250, 350, 400}},
		{"down to nothing", Profile{Segments: []Segment{{2 * second, 200, 0}}}, []int{150, 50, 0}},
		{"sine", Profile{Rate: 1000, Sine: &Sine{Amplitude: 500, Period: 4 * second}}, []int{1318, 1318, 682, 682, 1318}},
	} {
		for _, arrivals := range []string{Constant, Uniform, Poisson} {
			p := test.p
			p.Arrivals, p.Seed = arrivals, 3
			got := perSecond(p, len(test.want))
			for i, n := range got {
				allowed := 1.0
				if arrivals == Poisson {
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
func TestPoissonUnderASine(t *testing.T) {
	const n = 20_000
	p := Profile{Rate: 1000, Sine: &Sine{Amplitude: 900, Period: time.Second}, Arrivals: Poisson, Seed: 5}
	s := lawOf(&p).(*sine)
	starts := all(p, 1, n)
	for i, at := range starts {
		starts[i] = int64(s.cumulated(float64(at)/1e9) * 1e6) // axis of requests, in millionths
	}
	if d := ksExponential(secondsBetween(starts), 1000); d > 1.36/math.Sqrt(n-1) {
		t.Errorf("KS distance %v", d)
	}
}

func TestUniformKeepsEachRequestInItsOwnInterval(t *testing.T) {
	for k, at := range all(Profile{Rate: 1000, Arrivals: Uniform, Seed: 1}, 3, 10_000) {
		if at < int64(k)*1e6 || at > int64(k+1)*1e6 {
			t.Fatalf("request %d at %d ns", k, at)
		}
	}
}

func TestReplay(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "times")
	if err := os.WriteFile(path, []byte("# seconds\n0.2\n0.1\n\n0.25\n0.3\n0.9\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	p := profile(rawServer(t, saying(helloResponse)))
	p.Warmup, p.Workers, p.Arrivals, p.ReplayFile = 0, 2, Replay, path
	if r := mustRun(t, p); r.Classes[OK] != 4 { // 0.9 s is after the window
		t.Errorf("%v", r.Classes)
	}
	if err := os.WriteFile(path, []byte("0.1\nsoon\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Run(t.Context(), p, nil); err == nil || !strings.Contains(err.Error(), `times:2: "soon" is not`) {
		t.Errorf("%v", err)
	}
}

// Three processes share 7 requests/s exactly.
func TestPartsShareTheSchedule(t *testing.T) {
	for _, arrivals := range []string{Constant, Poisson} {
		whole := Profile{Rate: 7, Arrivals: arrivals, Seed: 9, Workers: 2}
		want := all(whole, 1, 210)
		seen := map[int64]int{}
		for part := range 3 {
			p := whole
			p.Part, p.Parts = part, 3
			e := job{profile: p}
			for worker := range p.Workers {
				s := e.schedule(worker)
				for range 35 {
					seen[s.next()]++
				}
			}
		}
		for _, at := range want {
			if seen[at] == 0 {
				t.Fatalf("%s: nobody sends the request due at %d ns", arrivals, at)
			}
			seen[at]--
		}
	}
}

func TestWeightedTurns(t *testing.T) {
	p := Profile{Targets: []string{"a", "b", "c"}, Weights: []int{5, 1, 1}}
	var got strings.Builder
	for _, i := range turnsOf(&p) {
		got.WriteString(p.Targets[i])
	}
	if got.String() != "aabacaa" {
		t.Errorf("turns %s", got.String())
	}
	seats := seatsOf(&p, 4)
	if len(seats) != 4 || seats[0] != 0 || seats[1] != 1 || seats[2] != 2 {
		t.Errorf("seats %v", seats)
	}
}
