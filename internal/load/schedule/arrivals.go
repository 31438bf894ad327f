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

// New builds the share of worker i of n. instants are those to replay.
func New(p *load.Profile, instants []int64, i, n int) Schedule {
	if p.Slices != nil {
		return &sliced{share(p, instants, i, n), p.Slices}
	}
	return share(p, instants, i, n)
}

// share is the share of worker i of n, of all slices.
func share(p *load.Profile, instants []int64, i, n int) Schedule {
	if p.Arrivals == load.Replay {
		return &replay{instants: instants, k: i, step: n}
	}
	a := &arrivals{curve: curve(p), position: positions(p), step: n}
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
}

func (a *arrivals) Next() int64 {
	at := a.curve.reach(a.position())
	for range a.step - 1 {
		a.position() // another worker's; a draw costs some nanoseconds
	}
	if !(at < load.Never) { // +Inf, and NaN where nothing is left over at rate 0
		return load.Never
	}
	return int64(math.Round(at))
}

// positions returns the positions of successive requests on the axis of requests.
func positions(p *load.Profile) func() float64 {
	rng := rand.New(rand.NewPCG(p.Seed, 0x7461_7265))
	k, at := -1.0, 0.0
	switch p.Arrivals {
	case load.Constant:
		return func() float64 { k++; return k }
	case load.Uniform:
		return func() float64 { k++; return k + rng.Float64() }
	}
	return func() float64 { at += rng.ExpFloat64(); return at }
}
