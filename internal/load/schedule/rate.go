package schedule

import (
	"math"
	"slices"
	"time"

	"github.com/tare-mesh/tare/internal/base/lists"
	"github.com/tare-mesh/tare/internal/load"
)

// rateCurve is the rate over time. reach returns the time (ns from t0) at which the
// cumulated rate, the expected number of requests so far, reaches x. x does not
// decrease from call to call. Infinite: never. cumulated is its inverse: the number at
// t seconds.
type rateCurve interface {
	reach(x float64) float64
	cumulated(t float64) float64
}

// curve is the rate of p over the time in which it sends.
func curve(p *load.Profile) rateCurve {
	if p.Slices != nil {
		return newSliced(p)
	}
	return continuous(p)
}

// continuous is the rate of p without slices.
func continuous(p *load.Profile) rateCurve {
	if len(p.Segments) > 0 {
		return newSegmented(p.Segments, p.Repeat)
	}
	return flat(p.Rate)
}

// flat is a constant rate. Every instant is computed from its index: adding up
// a rounded gap would drift.
type flat float64

func (rate flat) reach(x float64) float64 { return x * 1e9 / float64(rate) }

func (rate flat) cumulated(t float64) float64 { return float64(rate) * t }

// segmented goes from segment to segment. After the last one, the repeating ones begin again.
// If there are none, its end rate stays.
type segmented struct {
	segments []load.Segment
	repeat   []load.Segment
	before   float64       // requests of the segments that are over
	start    time.Duration // of the current one

	all  []load.Segment
	ends []float64 // of all segments, s
	sums []float64 // of requests until then
}

func newSegmented(all []load.Segment, repeat int) *segmented {
	s := &segmented{segments: all, repeat: all[len(all)-repeat:], all: all}
	var end, sum float64
	for _, g := range all {
		d := g.For.Seconds()
		end, sum = end+d, sum+(g.From+g.To)/2*d
		s.ends, s.sums = append(s.ends, end), append(s.sums, sum)
	}
	return s
}

func (s *segmented) reach(x float64) float64 {
	for len(s.segments) > 0 {
		g := s.segments[0]
		d := g.For.Seconds()
		if whole := (g.From + g.To) / 2 * d; x-s.before >= whole {
			if len(s.segments) == 1 && len(s.repeat) == 0 {
				return float64(s.start+g.For) + (x-s.before-whole)*1e9/g.To
			}
			s.before += whole
			s.start += g.For
			if s.segments = s.segments[1:]; len(s.segments) == 0 {
				s.segments = s.repeat
			}
			continue
		}
		return float64(s.start) + solveRamp(g.From, (g.To-g.From)/d, x-s.before)*1e9
	}
	return math.Inf(1)
}

func (s *segmented) cumulated(t float64) float64 {
	last := len(s.all) - 1
	if i, _ := slices.BinarySearch(s.ends, t); i <= last {
		begin, before := 0.0, 0.0
		if i > 0 {
			begin, before = s.ends[i-1], s.sums[i-1]
		}
		in, _ := through(s.all[i:i+1], t-begin)
		return before + in
	}
	sum, rate, rest := s.sums[last], s.all[last].To, t-s.ends[last]
	cycle := length(s.repeat)
	if cycle == 0 {
		return sum + rate*rest
	}
	all, _ := through(s.repeat, cycle)
	part, _ := through(s.repeat, math.Mod(rest, cycle))
	return sum + math.Floor(rest/cycle)*all + part
}

// through is the number of requests of segments until t seconds after their start, and the
// last rate.
func through(segments []load.Segment, t float64) (sum, rate float64) {
	for _, g := range segments {
		d := g.For.Seconds()
		in := min(max(t, 0), d)
		sum += g.From*in + (g.To-g.From)/d*in*in/2
		t, rate = t-d, g.To
	}
	return sum, rate
}

func length(segments []load.Segment) (sum float64) {
	return lists.Sum(segments, func(g load.Segment) float64 { return g.For.Seconds() })
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
