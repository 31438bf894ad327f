package capacity

import (
	"context"
	"math"
	"math/rand/v2"
	"time"
)

const (
	belowLimit  = 100  // the search begins at the limit over this
	aboveClosed = 1.25 // limit of the search over the rate of a closed loop
	// A probe above this share of the limit holds only if the closed loop was disturbed: the limit is then raised.
	nearLimit    = 0.85
	raise        = 8
	minAnswered  = 0.99 // share of the due requests that are answered within a probe that holds
	maxUndecided = 3    // probes in a row
	// beyondQuantile is the number of requests of a probe above the quantile of an objective.
	beyondQuantile = 10
	// Confidence of the interval.
	confidence = 0.95
)

// MaxProbe is the time of a probe that waits for rare requests.
const MaxProbe = 30 * time.Second

// Values of [Found.Open].
const (
	OpenAbove = "above"
	OpenBelow = "below"
)

// Found is the highest rate at which an objective holds.
type Found struct {
	Objective string `json:"objective"` // bounds that the load must keep
	// Rate is the median of the posterior, and Low and High are its 95 % interval.
	Rate float64 `json:"rate,omitempty"` // highest rate that keeps the bounds, 1/s; absent if no probe was decided
	Low  float64 `json:"low,omitempty"`  // lower end of its 95 % interval
	High float64 `json:"high,omitempty"` // upper end
	// Open: no probe was found that does not hold, or none that does.
	Open   string  `json:"open,omitempty"` // `above`: every probe kept the bounds; `below`: none did
	Note   string  `json:"note,omitempty"` // why the search ended early
	Probes []Probe `json:"probes"`
}

// Rounded are the rate and the ends of its interval to two digits of half of the interval.
func (f Found) Rounded() (rate, low, high float64) {
	half := (f.High - f.Low) / 2
	if !(half > 0) || f.Open != "" {
		return f.Rate, f.Low, f.High
	}
	step := math.Pow10(int(math.Floor(math.Log10(half))) - 1)
	at := func(v float64) float64 { return math.Round(v/step) * step }
	return at(f.Rate), at(f.Low), at(f.High)
}

// Probe is one load at one rate.
type Probe struct {
	Rate      float64 `json:"rate"`                // requests per second of the probe
	Holds     bool    `json:"holds"`               // it kept the bounds
	Undecided string  `json:"undecided,omitempty"` // why the probe has no result
	Answered  float64 `json:"answered"`            // answers per second
	P50MS     float64 `json:"p50_ms,omitempty"`    // median response time, ms
	P99MS     float64 `json:"p99_ms,omitempty"`    // 99 % quantile of it, ms
	Errors    float64 `json:"errors"`              // share of failed requests
	Seconds   float64 `json:"seconds"`             // length of the probe, s
}

// Options of [Find].
type Options struct {
	Objective string  // as [ParseBounds] reads it
	Limit     float64 // of the rate. 0: the rate of a closed loop and a quarter
	Probes    int
	Length    time.Duration // of a probe. Quantiles at low rates need more
	Seed      uint64
}

// Load runs one load, and rate 0 is a closed loop. The search ends with its error.
type Load func(ctx context.Context, rate float64, length time.Duration) (Figures, error)

// Find searches by probes. It returns the probes so far if ctx ends.
func Find(ctx context.Context, o Options, run Load) (Found, error) {
	found := Found{Objective: o.Objective, Probes: []Probe{}}
	bounds, err := ParseBounds(o.Objective)
	if err != nil {
		return found, err
	}
	limit := o.Limit
	if limit == 0 {
		closed, err := run(ctx, 0, o.Length)
		if err != nil || ctx.Err() != nil {
			return found, err
		}
		limit = aboveClosed * closed.Answered
	}
	if !(limit > 0) || math.IsInf(limit, 0) {
		found.Note = "A closed loop had no answer."
		return found, nil
	}
	seeds := rand.New(rand.NewPCG(o.Seed, 0))
	search := New(limit/belowLimit, limit, seeds.Uint64())
	held, missed, undecided := 0, 0, 0
	for range o.Probes {
		rate := search.Next()
		length := probeLength(bounds, rate, o.Length)
		x, err := run(ctx, rate, length)
		if err != nil {
			return found, err
		}
		if ctx.Err() != nil {
			break // an interrupted probe
		}
		p := judge(bounds, rate, length, &x)
		found.Probes = append(found.Probes, p)
		if p.Undecided != "" {
			if undecided++; undecided == maxUndecided {
				found.Note = "The search ended after 3 undecided probes: " + p.Undecided + "."
				break
			}
			continue
		}
		search.Observe(rate, p.Holds)
		if undecided = 0; p.Holds {
			held++
		} else {
			missed++
		}
		if o.Limit == 0 && p.Holds && missed == 0 && rate > nearLimit*limit {
			limit *= raise
			search = again(New(limit/belowLimit/raise, limit, seeds.Uint64()), found.Probes)
		}
	}
	if held+missed > 0 {
		found.Low, found.Rate, found.High = search.Interval(confidence)
		switch {
		case missed == 0:
			found.Open = OpenAbove
		case held == 0:
			found.Open = OpenBelow
		}
	}
	return found, nil
}

// again gives a search over other rates the probes so far. It begins with bisections.
func again(s *Search, probes []Probe) *Search {
	for _, p := range probes {
		if p.Undecided == "" {
			s.Observe(p.Rate, p.Holds)
		}
	}
	s.probes = 0
	return s
}

// Longest is about the time that a search takes: its loads, and what each needs besides.
func Longest(probes int, length, besides time.Duration) time.Duration {
	return time.Duration(probes+1) * (length + besides)
}

// probeLength is long enough for the quantiles of the bounds.
func probeLength(bounds []Bound, rate float64, length time.Duration) time.Duration {
	need := length
	for _, b := range bounds {
		if q := b.figure.quantile; q > 0 && q < 1 {
			need = max(need, time.Duration(min(beyondQuantile/(1-q)/rate, MaxProbe.Seconds())*float64(time.Second)))
		}
	}
	return min(need, max(MaxProbe, length))
}

// judge compares a probe with the bounds. A probe with a backlog that grows does not hold,
// whatever the times so far.
func judge(bounds []Bound, rate float64, length time.Duration, x *Figures) Probe {
	p := Probe{Rate: rate, Holds: true, Answered: x.Answered, P50MS: x.TimesMS["p50"], P99MS: x.TimesMS["p99"], Seconds: length.Seconds()}
	if x.Success != nil {
		p.Errors = 1 - *x.Success
	}
	missed := false // a bound that no lateness of the generator excuses
	for _, b := range bounds {
		holds, _, undecided := b.Check(x)
		if undecided != "" && !x.GeneratorOK && x.Success != nil && len(x.TimesMS) > 0 {
			p.Undecided = "the generator was the limit"
		}
		missed = missed || !holds && undecided == ""
		p.Holds = p.Holds && holds && undecided == ""
	}
	if float64(x.Completed) < minAnswered*float64(x.Intended) && float64(x.Growth) > math.Sqrt(float64(x.Intended)) {
		if p.Holds && !x.GeneratorOK { // the backlog may be its own
			p.Undecided = "the generator was the limit"
		}
		p.Holds = false
	}
	if p.Holds || missed {
		p.Undecided = ""
	}
	return p
}
