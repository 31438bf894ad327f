package loadgen

import (
	"bufio"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Arrival processes of the open loop.
const (
	Constant = "constant" // the k-th request at k/rate: no drift, no randomness
	Poisson  = "poisson"  // exponential gaps: what independent users do, the default
	Uniform  = "uniform"  // the k-th request at a random moment of its own 1/rate
	Replay   = "replay"   // at the instants of a file
)

// Segment is a stretch of the schedule over which the rate goes in a straight
// line from From to To (1/s): a step where they are equal, else a ramp.
type Segment struct {
	For  time.Duration `json:"for"`
	From float64       `json:"from"`
	To   float64       `json:"to"`
}

// Sine makes the rate swing about Profile.Rate: Rate + Amplitude·sin(2πt/Period).
type Sine struct {
	Amplitude float64       `json:"amplitude"` // 1/s, at most Rate
	Period    time.Duration `json:"period"`
}

// schedule yields the intended starts of one worker's requests, in ns from t0,
// never decreasing, and never when there are no more. The load's schedule is a
// pure function of the profile: worker i of n takes requests i, i+n, i+2n, … of
// it, so that the number of workers and processes changes by whom requests are
// sent, and not when: 7 requests/s over 3 workers are 7.
type schedule interface {
	next() int64
}

// newSchedule builds the share of worker i of n. instants are those to replay.
func newSchedule(p *Profile, instants []int64, i, n int) schedule {
	if p.Arrivals == Replay {
		return &replay{instants: instants, k: i, step: n}
	}
	a := &arrivals{law: lawOf(p), number: numbersOf(p), step: n}
	for range i {
		a.number()
	}
	return a
}

// arrivals puts a random process over a rate that may change: number yields
// positions on the axis of requests, one request apiece on average, and law
// says when the rate reaches that position (time-rescaling: a process of rate 1,
// run through the inverse of the cumulated rate, has that rate).
type arrivals struct {
	number func() float64
	law    law
	step   int
}

func (a *arrivals) next() int64 {
	at := a.law.reach(a.number())
	for range a.step - 1 {
		a.number() // another worker's; a draw costs some nanoseconds
	}
	if !(at < never) { // +Inf, and NaN where nothing is left over at rate 0
		return never
	}
	return int64(math.Round(at))
}

// numbers returns the positions of successive requests on the axis of requests.
func numbersOf(p *Profile) func() float64 {
	rng := rand.New(rand.NewPCG(p.Seed, 0x7461_7265))
	k, at := -1.0, 0.0
	switch p.Arrivals {
	case Constant:
		return func() float64 { k++; return k }
	case Uniform:
		return func() float64 { k++; return k + rng.Float64() }
	}
	return func() float64 { at += rng.ExpFloat64(); return at }
}

// law is how the rate goes on. reach returns when (ns from t0) the cumulated
// rate, the expected number of requests so far, reaches x; x does not decrease
// from call to call. Infinite: never.
type law interface {
	reach(x float64) float64
}

func lawOf(p *Profile) law {
	switch {
	case len(p.Segments) > 0:
		return &segmented{segments: p.Segments}
	case p.Sine != nil:
		return &sine{rate: p.Rate, amplitude: p.Sine.Amplitude, period: p.Sine.Period.Seconds()}
	}
	return flat(p.Rate)
}

// flat is a constant rate. Every instant is computed from its index: adding up
// a rounded gap would drift.
type flat float64

func (rate flat) reach(x float64) float64 { return x * 1e9 / float64(rate) }

// segmented goes from segment to segment; the last one's end rate holds on.
type segmented struct {
	segments []Segment
	before   float64       // requests of the segments that are over
	start    time.Duration // of the current one
}

func (s *segmented) reach(x float64) float64 {
	for len(s.segments) > 0 {
		g := s.segments[0]
		d := g.For.Seconds()
		if whole := (g.From + g.To) / 2 * d; x-s.before >= whole {
			if len(s.segments) == 1 {
				return float64(s.start+g.For) + (x-s.before-whole)*1e9/g.To
			}
			s.before += whole
			s.start += g.For
			s.segments = s.segments[1:]
			continue
		}
		return float64(s.start) + solveRamp(g.From, (g.To-g.From)/d, x-s.before)*1e9
	}
	return math.Inf(1)
}

// solveRamp returns t ≥ 0 with rate·t + slope·t²/2 = x, in the form of the
// quadratic's root that loses no digits when slope is small.
func solveRamp(rate, slope, x float64) float64 {
	root := math.Sqrt(max(0, rate*rate+2*slope*x))
	if rate+root == 0 {
		return 0
	}
	return 2 * x / (rate + root)
}

// sine swings about a rate. Its cumulated rate R·t + A·P/2π·(1 − cos 2πt/P) has
// no inverse in closed form.
type sine struct {
	rate, amplitude float64 // 1/s
	period          float64 // s
	last            float64 // s, the previous result: the next is not before it
}

func (s *sine) cumulated(t float64) float64 {
	return s.rate*t + s.amplitude*s.period/(2*math.Pi)*(1-math.Cos(2*math.Pi*t/s.period))
}

// reach halves the interval in which the answer must lie, to the nanosecond.
func (s *sine) reach(x float64) float64 {
	low, high := s.last, s.last+1/s.rate
	for s.cumulated(high) < x {
		high += 2 * (high - low)
	}
	for high-low > 0.5e-9 && (low+high)/2 != low && (low+high)/2 != high {
		if middle := (low + high) / 2; s.cumulated(middle) < x {
			low = middle
		} else {
			high = middle
		}
	}
	s.last = low
	return high * 1e9
}

// replay is every step-th of the instants.
type replay struct {
	instants []int64
	k, step  int
}

func (r *replay) next() int64 {
	if r.k >= len(r.instants) {
		return never
	}
	at := r.instants[r.k]
	r.k += r.step
	return at
}

// maxReplay bounds the instants of a replay file: 800 MB.
const maxReplay = 100_000_000

// readInstants reads one instant a line, in seconds from the start, as a decimal
// number; blank lines and lines that begin with # are passed over. The order in
// the file does not matter.
func readInstants(path string) ([]int64, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("read arrivals: %w", err)
	}
	defer f.Close()
	var instants []int64
	lines := bufio.NewScanner(f)
	for n := 1; lines.Scan(); n++ {
		line := strings.TrimSpace(lines.Text())
		if line == "" || line[0] == '#' {
			continue
		}
		at, err := strconv.ParseFloat(line, 64)
		if err != nil || !(at >= 0) || at > maxDuration.Seconds() {
			return nil, fmt.Errorf("read arrivals: %s:%d: %.40q is not a number of seconds from 0 on", path, n, line)
		}
		if len(instants) == maxReplay {
			return nil, fmt.Errorf("read arrivals: %s has more than %d instants", path, maxReplay)
		}
		instants = append(instants, int64(math.Round(at*1e9)))
	}
	if err := lines.Err(); err != nil {
		return nil, fmt.Errorf("read arrivals: %w", err)
	}
	slices.Sort(instants)
	return instants, nil
}
