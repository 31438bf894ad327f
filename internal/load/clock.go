package load

import (
	"time"
)

// Clocks of several hosts that share one load: how far each is from that of whoever
// starts them.

// Clock is how one process's clock stands to that of the one who asked.
type Clock struct {
	AheadUS float64 `json:"ahead_us"` // its clock minus the asker's, µs
	// BoundUS is the most by which AheadUS may be wrong, µs: half of the quickest
	// question's round trip, as nothing says how that was shared between the ways.
	BoundUS float64 `json:"bound_us"`
}

// Ahead is c.AheadUS as a duration.
func (c Clock) Ahead() time.Duration { return time.Duration(c.AheadUS * 1e3) }

// ClockOf is a Clock by its figures as durations.
func ClockOf(ahead, bound time.Duration) Clock {
	return Clock{AheadUS: float64(ahead) / 1e3, BoundUS: float64(bound) / 1e3}
}
