// Package clock compares the clocks of two processes, which may be on two hosts, by
// the four time stamps of NTP (RFC 5905 section 8).
package clock

import (
	"errors"
	"fmt"
	"math"
	"time"
)

// Stamps are when a process took a question after its clock and when it answered, by
// that clock; ns since 1970.
type Stamps struct {
	Received int64 `json:"received"`
	Sent     int64 `json:"sent"`
}

// Looks is how often a clock is asked; the quickest answer says most.
const Looks = 8

// Measure compares another process's clock with now, the asker's: how far it is
// ahead, and the most by which that may be wrong, half of the quickest question's
// round trip, as nothing says how that was shared between the ways. ask puts the
// question once, by whatever way there is: a pipe, a socket. An error of any of them
// ends it.
func Measure(now func() time.Time, ask func() (Stamps, error)) (ahead, bound time.Duration, err error) {
	best := time.Duration(math.MaxInt64)
	for range Looks {
		asked := now()
		s, err := ask()
		answered := now()
		if err != nil {
			return 0, 0, fmt.Errorf("ask for the clock: %w", err)
		}
		received, sent := time.Unix(0, s.Received), time.Unix(0, s.Sent)
		trip := answered.Sub(asked) - sent.Sub(received)
		if sent.Before(received) || trip < 0 {
			return 0, 0, errors.New("compare clocks: the answer is older than its question")
		}
		if trip < best {
			best = trip
			ahead = (received.Sub(asked.Round(0)) + sent.Sub(answered.Round(0))) / 2
		}
	}
	return ahead, (best + 1) / 2, nil
}
