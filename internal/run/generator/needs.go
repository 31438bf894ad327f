package generator

import "time"

// Foreign is an external generator with its requirements on the caller.
type Foreign interface {
	Generator
	Finder
	Needs() Needs
}

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

// Needs implements [Foreign].
func (Oha) Needs() Needs { return Needs{AtOnce: true} }

// Needs implements [Foreign].
func (Wrk) Needs() Needs { return Needs{AtOnce: true, Whole: true} }

// Needs implements [Foreign].
func (Wrk2) Needs() Needs { return Needs{AtOnce: true, Warmup: wrk2Traits.calibration, Whole: true} }

// Needs implements [Foreign].
func (Vegeta) Needs() Needs { return Needs{AtOnce: true} }

// Needs implements [Foreign].
func (Fortio) Needs() Needs { return Needs{AtOnce: true, Whole: true} }

// Needs implements [Foreign].
func (H2load) Needs() Needs { return Needs{AtOnce: true} }

// Needs implements [Foreign].
func (Nighthawk) Needs() Needs { return Needs{AtOnce: true, Whole: true} }

// Needs implements [Foreign].
func (K6) Needs() Needs { return Needs{AtOnce: true, Warmup: k6Shortest} }
