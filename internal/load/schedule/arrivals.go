// Package schedule computes when requests are due, and which worker and target gets them.
package schedule

import (
	"math"
	"math/rand/v2"

	"github.com/tare-mesh/tare/internal/load"
)

// Schedule yields the intended starts of one worker's requests, in ns from t0, never
// decreasing. It yields [load.Never] at the end. The load's schedule is a pure
// function of the profile: worker i of n takes its requests i, i+n, i+2n, …. The
// number of workers and processes therefore does not change the send times: 7
// requests/s over 3 workers are 7.
type Schedule interface {
	Next() int64
}

// New builds the share of worker i of n.
func New(p *load.Profile, i, n int) Schedule {
	c := curve(p)
	a := &arrivals{curve: c, position: positions(p, c), step: n, round: math.Floor}
	if p.Arrivals == load.Constant {
		a.round = math.Round // a position computed as a whole number of ns may be a little less
	}
	for range i {
		a.position()
	}
	return a
}

// arrivals applies a random process to a rate that may change. number yields
// positions on the axis of requests, on average one request apart. law returns the
// time at which the rate reaches a position. This is time-rescaling: a process of
// rate 1, mapped through the inverse of the cumulated rate, has that rate.
type arrivals struct {
	position func() float64
	curve    rateCurve
	step     int
	round    func(float64) float64 // to ns, down for random positions, so that they stay in their stretch
}

func (a *arrivals) Next() int64 {
	at := a.curve.reach(a.position())
	for range a.step - 1 {
		a.position() // another worker's, and a draw costs some nanoseconds
	}
	if !(at < load.Never) { // +Inf, and NaN where nothing is left over at rate 0
		return load.Never
	}
	return int64(a.round(at))
}

// positions returns the positions of successive requests on the axis of requests.
func positions(p *load.Profile, c rateCurve) func() float64 {
	rng := rand.New(rand.NewPCG(p.Seed, 0x7461_7265))
	k := -1.0
	switch p.Arrivals {
	case load.Constant:
		return func() float64 { k++; return k }
	case load.Uniform:
		return func() float64 { k++; return k + rng.Float64() }
	}
	return (&conditioned{rng: rng, edges: edges(p, c)}).next
}

// conditioned is a Poisson process of rate 1 whose number of requests in each stretch
// is fixed. Given their number, the requests of a Poisson process are independent and
// uniform (Kingman, Poisson Processes, 1993, section 2.4). Two runs of one load
// then have the same number of requests, and their gaps are exponential as before.
//
// The uniform positions are drawn in ascending order without storing them. The least
// of n uniform values in (0,1) is 1 - U^(1/n), and the others are uniform above it
// (Bentley, Saxe, Generating Sorted Lists of Random Numbers, ACM TOMS 6, 1980).
type conditioned struct {
	rng   *rand.Rand
	edges []float64 // ends of the stretches to come
	at    float64
	left  float64 // requests left in the current stretch
}

func (c *conditioned) next() float64 {
	for c.left == 0 && len(c.edges) > 0 {
		// As many as requests of constant arrivals, whose positions are whole numbers.
		if c.left = whole(c.edges[0]) - whole(c.at); c.left == 0 {
			c.at, c.edges = c.edges[0], c.edges[1:]
		}
	}
	if len(c.edges) == 0 {
		c.at += c.rng.ExpFloat64()
		return c.at
	}
	// U^(1/n) = exp(-E/n) with E exponential.
	c.at -= (c.edges[0] - c.at) * math.Expm1(-c.rng.ExpFloat64()/c.left)
	at := c.at
	if c.left--; c.left == 0 {
		c.at, c.edges = c.edges[0], c.edges[1:]
	}
	return at
}

// rounding bounds the rounding error of a position.
const rounding = 1e-6

// whole counts the whole numbers below a position.
func whole(position float64) float64 { return math.Ceil(position - rounding) }

// edges are the positions of the ends of warm-up, measure window and tail. A load of a
// number of requests has its measure window at the number. A load with slices has the ends of
// its own slices.
func edges(p *load.Profile, c rateCurve) []float64 {
	if s, ok := c.(*sliced); ok {
		return s.edges()
	}
	if p.Measure <= 0 {
		return nil // no load of its own
	}
	begin := c.cumulated(p.Warmup.Seconds())
	if p.Requests > 0 {
		return []float64{begin, begin + float64(p.Requests)}
	}
	end := p.Warmup + p.Measure
	return []float64{begin, c.cumulated(end.Seconds()), c.cumulated((end + p.Tail).Seconds())}
}
