package load

import (
	"fmt"
	"strings"
	"time"
)

// Slices divides the time of several loads that take turns. All of them have the same table, and
// each has arrivals only in its own slices. The load then moves from one to the next without a
// message between them.
type Slices struct {
	Length time.Duration `json:"length"` // of a slice. Slice i begins at i·Length
	// Guard is the end of each slice, in which no request is intended. Answers arrive in
	// it, and counters are read near its end.
	Guard time.Duration `json:"guard"`
	// Owners of the slices, from the start of the schedule. Nobody sends after the last.
	Owners Owners `json:"owners"`
	Own    int    `json:"own"` // the owner that this load is
}

// Owners are numbers of loads, by slice. Their text has a digit for each, 0 to 9 and a to z.
type Owners []int

// MaxOwners is the number of digits.
const MaxOwners = 36

const ownerDigits = "0123456789abcdefghijklmnopqrstuvwxyz"

// MarshalText writes the digits.
func (o Owners) MarshalText() ([]byte, error) {
	text := make([]byte, len(o))
	for i, n := range o {
		if n < 0 || n >= MaxOwners {
			return nil, fmt.Errorf("owner %d of slice %d is not between 0 and %d", n, i, MaxOwners-1)
		}
		text[i] = ownerDigits[n]
	}
	return text, nil
}

// UnmarshalText reads the digits.
func (o *Owners) UnmarshalText(text []byte) error {
	*o = make(Owners, len(text))
	for i, c := range text {
		n := strings.IndexByte(ownerDigits, c)
		if n < 0 {
			return fmt.Errorf("owner %q of slice %d is not a digit or small letter", c, i)
		}
		(*o)[i] = n
	}
	return nil
}

// MaxSlices bounds a table: more than a day of slices of a tenth of a second.
const MaxSlices = 1 << 20

// readLead is the part of the guard between the reading of counters and the end of the slice. A
// reading that is late by no more precedes the first request of the next slice.
const readLead = 4

// Edge returns the instant between slices i-1 and i at which counters are read.
func (s *Slices) Edge(i int) time.Duration {
	return time.Duration(i)*s.Length - s.Guard/readLead
}

// Index returns the slice of an instant, in ns from the start of the schedule.
func (s *Slices) Index(at int64) int { return int(at / int64(s.Length)) }

// Loaded returns the time between two instants in which this load sends, without guards.
func (s *Slices) Loaded(from, to time.Duration) time.Duration {
	var sum time.Duration
	for i := int(from / s.Length); i < len(s.Owners) && time.Duration(i)*s.Length < to; i++ {
		if s.Owners[i] != s.Own {
			continue
		}
		begin := time.Duration(i) * s.Length
		sum += max(0, min(to, begin+s.Length-s.Guard)-max(from, begin))
	}
	return sum
}

// SliceCount counts the requests of one slice, by their intended start.
type SliceCount struct {
	Slice      int   `json:"slice"` // from the start of the schedule
	Intended   int64 `json:"intended"`
	Answered   int64 `json:"answered"` // with any status, at any time
	OK         int64 `json:"ok"`
	Overrun    int64 `json:"overrun"`    // ended after the reading at the end of the next slice
	ResponseNS int64 `json:"responseNS"` // sum over OK, from the intended start
	LastEnd    int64 `json:"lastEnd"`    // when the last of them ended, ns from the start of the schedule, 0 if none did
}

// Add adds the counts of another worker for the same slice.
func (n *SliceCount) Add(w *SliceCount) {
	n.Intended += w.Intended
	n.Answered += w.Answered
	n.OK += w.OK
	n.Overrun += w.Overrun
	n.ResponseNS += w.ResponseNS
	n.LastEnd = max(n.LastEnd, w.LastEnd)
}

// Loaded returns the part of the measure window in which the load sends: all of it, without slices.
func (p *Profile) Loaded() time.Duration {
	if p.Slices == nil {
		return p.Measure
	}
	return p.Slices.Loaded(p.Warmup, p.Warmup+p.Measure)
}

func (p *Profile) validateSlices(m *mistakes) {
	s := p.Slices
	if s == nil {
		return
	}
	m.refuse("slices", p.Rate == 0, "slices need a rate: a closed loop has no schedule to share")
	m.refuse("slices", p.Requests > 0, "a number of requests and slices exclude each other")
	if s.Length < time.Millisecond || s.Length > MaxDuration {
		m.refuse("slices", true, "slices of %v are not between 1ms and %v", s.Length, MaxDuration)
		return
	}
	m.refuse("slices", s.Guard < 0 || s.Guard >= s.Length, "a guard of %v does not fit a slice of %v", s.Guard, s.Length)
	m.refuse("slices", len(s.Owners) == 0 || len(s.Owners) > MaxSlices, "%d slices are not between 1 and %d", len(s.Owners), MaxSlices)
	m.refuse("slices", p.Warmup%s.Length != 0 || p.Measure%s.Length != 0, "warm-up %v and measure window %v are not whole slices of %v", p.Warmup, p.Measure, s.Length)
	m.refuse("slices", s.End() < p.Warmup+p.Measure, "%d slices of %v end before the measure window does", len(s.Owners), s.Length)
	m.refuse("slices", p.Loaded() == 0, "owner %d has no slice in the measure window", s.Own)
}

// End returns the end of the table.
func (s *Slices) End() time.Duration { return time.Duration(len(s.Owners)) * s.Length }
