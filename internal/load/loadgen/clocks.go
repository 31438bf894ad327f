package loadgen

import "time"

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

// OnClock tells r's times, which are those of a part's own clock, by the clock of the
// one who measured c, and keeps c.
func (r *Report) OnClock(c Clock) {
	for _, at := range []*time.Time{&r.Started, &r.MeasureStart, &r.MeasureEnd} {
		*at = at.Add(-c.Ahead())
	}
	r.Clock = &c
}

// skewLimit is the difference of clocks, or of what is known of them, that is
// worth a warning, µs: or a tenth of the median response time, if that is more.
const skewLimit = 1000.0

// judgeClocks compares the clocks of all parts, where each has been measured.
func judgeClocks(r *Report, parts []Report) {
	var least, most, bound float64
	for i := range parts {
		c := parts[i].Clock
		if c == nil {
			return
		}
		if i == 0 {
			least, most = c.AheadUS, c.AheadUS
		}
		least, most, bound = min(least, c.AheadUS), max(most, c.AheadUS), max(bound, c.BoundUS)
	}
	r.Clock = nil
	r.ClockSkewUS, r.ClockBoundUS = most-least, 2*bound
	limit := max(skewLimit, 0.1*r.ResponseMS.P50*1e3)
	if r.ClockSkewUS > limit {
		r.warn("the clocks of the parts differ by %.0f µs (± %.0f µs, limit %.0f µs): each part's start is told by its own clock to make up for it", r.ClockSkewUS, r.ClockBoundUS, limit)
	}
	if r.ClockBoundUS > limit {
		r.warn("the clocks of the parts could be compared only to ± %.0f µs (limit %.0f µs): the parts may have started so far apart", r.ClockBoundUS, limit)
	}
}
