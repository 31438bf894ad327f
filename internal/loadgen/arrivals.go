package loadgen

import (
	"math"
	"math/rand/v2"
)

// Arrival processes of the open loop.
const (
	Constant = "constant" // the k-th request at k/rate: no drift, no randomness
	Poisson  = "poisson"  // exponential gaps: what independent users do, the default
)

// schedule yields the intended starts of one worker's requests, in ns from t0,
// never decreasing. The load's schedule is a pure function of the profile:
// worker i of n takes requests i, i+n, i+2n, … of it, so that the number of
// workers does not change when requests are sent, only by whom.
type schedule interface {
	next() int64
}

// newSchedule builds worker i's share of the load's schedule, n workers in all.
func newSchedule(p *Profile, i, n int) schedule {
	if p.Arrivals == Constant {
		return &constant{k: int64(i), step: int64(n), rate: p.Rate}
	}
	s := &poisson{rng: rand.New(rand.NewPCG(p.Seed, 0x7461_7265)), gap: 1e9 / p.Rate, step: n}
	s.skip(i)
	return s
}

// constant computes every start from its index: t0 + k/rate. Adding up a
// rounded gap instead would drift.
type constant struct {
	k, step int64
	rate    float64 // of the whole load, 1/s
}

func (c *constant) next() int64 {
	at := math.Round(float64(c.k) * 1e9 / c.rate)
	c.k += c.step
	return int64(at)
}

// poisson draws exponential gaps (inter-arrival times of a Poisson process)
// with the mean 1/rate. Every worker draws the whole stream and keeps its own:
// a draw costs some nanoseconds, and the load stays the same for any number of
// workers.
type poisson struct {
	rng  *rand.Rand
	at   float64 // ns
	gap  float64 // mean, ns
	step int
}

func (s *poisson) skip(n int) {
	for range n {
		s.at += s.rng.ExpFloat64() * s.gap
	}
}

func (s *poisson) next() int64 {
	s.at += s.rng.ExpFloat64() * s.gap
	at := int64(s.at)
	s.skip(s.step - 1)
	return at
}
