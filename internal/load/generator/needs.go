package generator

import "time"

// Foreign is a generator that is not tare's own, with what it needs of the one who runs it.
type Foreign interface {
	Generator
	Finder
	Needs() Needs
}

// Needs of a generator that knows nothing of the profile's schedule.
type Needs struct {
	// AtOnce: it begins when its process does. Command is given a profile without
	// Start, the process is started at the instant, and Parse is given that
	// instant as Start.
	AtOnce bool
	// Warmup is the shortest warm-up with which its figures cover the measure
	// window; with a shorter one it leaves out the window's beginning (wrk2) or refuses (k6).
	Warmup time.Duration
	// Whole says that it has one figure for the whole run, even where it is asked for an interval log.
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
