// Package clock compares the clocks of two processes, possibly on two hosts, by
// the four time stamps of NTP (RFC 5905 section 8).
package clock

import (
	"errors"
	"fmt"
	"math"
	"time"
)

// Stamps are the times at which a process received a request and sent its response,
// by its own clock, in ns since 1970.
type Stamps struct {
	Received int64 `json:"received"`
	Sent     int64 `json:"sent"`
}

// looks is the number of requests. The one with the shortest round trip is used.
const looks = 8

// Measure compares another process's clock with now, the caller's. It returns how
// far the other clock is ahead, and the maximal error: half of the shortest round
// trip, since its two directions cannot be measured separately. ask sends one
// request, over a pipe or a socket. Its first error is returned.
func Measure(now func() time.Time, ask func() (Stamps, error)) (ahead, bound time.Duration, err error) {
	best := time.Duration(math.MaxInt64)
	for range looks {
		asked := now()
		s, err := ask()
		answered := now()
		if err != nil {
			return 0, 0, fmt.Errorf("ask for the clock: %w", err)
		}
		received, sent := time.Unix(0, s.Received), time.Unix(0, s.Sent)
		trip := answered.Sub(asked) - sent.Sub(received)
		if sent.Before(received) || trip < 0 {
			return 0, 0, errors.New("compare clocks: the response is older than its request")
		}
		if trip < best {
			best = trip
			ahead = (received.Sub(asked.Round(0)) + sent.Sub(answered.Round(0))) / 2
		}
	}
	return ahead, (best + 1) / 2, nil
}
