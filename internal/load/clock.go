package load

import (
	"time"
)

// Clocks of several hosts that share one load: the offset of each from the process that
// starts them.

// Clock is the offset of one process's clock from the clock of the process that started it.
type Clock struct {
	AheadUS float64 `json:"ahead_us"` // its clock minus the other process's, µs
	// BoundUS is the maximum error of AheadUS, µs: half of the shortest round trip,
	// since its two directions may differ.
	BoundUS float64 `json:"bound_us"`
}

// Ahead is c.AheadUS as a duration.
func (c Clock) Ahead() time.Duration { return time.Duration(c.AheadUS * 1e3) }

// ClockOf is a Clock by its figures as durations.
func ClockOf(ahead, bound time.Duration) Clock {
	return Clock{AheadUS: float64(ahead) / 1e3, BoundUS: float64(bound) / 1e3}
}
