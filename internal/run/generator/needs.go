package generator

import (
	"context"
	"time"
)

// Needs are the requirements of a generator that ignores the profile's schedule.
type Needs struct {
	// AtOnce reports that the load begins when the process starts. Command gets a
	// profile without Start, and Parse gets the start of the process as Start.
	AtOnce bool
	// Warmup is the shortest warm-up for which the figures cover the measure window.
	// With a shorter one wrk2 omits the beginning of the window and k6 is refused.
	Warmup time.Duration
	// Whole reports that the figures are of the whole run, also if an interval log is requested.
	Whole bool
}

// external returns the abilities of the generator with a program of this name.
func (g program) external(name string, needs Needs) Abilities {
	return Abilities{Find: func(ctx context.Context) (Found, error) { return g.found(ctx, name) }, Needs: needs}
}

// Abilities implements [Generator].
func (g Oha) Abilities() Abilities { return g.external("oha", Needs{AtOnce: true}) }

// Abilities implements [Generator].
func (g Wrk) Abilities() Abilities { return g.external("wrk", Needs{AtOnce: true, Whole: true}) }

// Abilities implements [Generator].
func (g Wrk2) Abilities() Abilities {
	return g.external("wrk2", Needs{AtOnce: true, Warmup: wrk2Traits.calibration, Whole: true})
}

// Abilities implements [Generator].
func (g Vegeta) Abilities() Abilities { return g.external("vegeta", Needs{AtOnce: true}) }

// Abilities implements [Generator].
func (g Fortio) Abilities() Abilities { return g.external("fortio", Needs{AtOnce: true, Whole: true}) }

// Abilities implements [Generator].
func (g H2load) Abilities() Abilities { return g.external("h2load", Needs{AtOnce: true}) }

// Abilities implements [Generator].
func (g Nighthawk) Abilities() Abilities {
	return g.external("nighthawk_client", Needs{AtOnce: true, Whole: true})
}

// Abilities implements [Generator].
func (g K6) Abilities() Abilities { return g.external("k6", Needs{AtOnce: true, Warmup: k6Shortest}) }
