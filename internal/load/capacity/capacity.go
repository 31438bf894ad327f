// Package capacity finds the highest rate at which an objective holds, from probes that
// hold or do not.
//
// Near its capacity a server meets an objective in some probes and misses it in others. One
// sweep up stops at the first miss by chance. [Search] keeps a posterior distribution of the
// capacity instead. The probability that a probe holds falls from 1 to 0 about the capacity, as
// a logistic function of the logarithm of the rate. Its slope is unknown too (Watson, Pelli,
// QUEST, Perception & Psychophysics 1983, and Kontsevich, Tyler, Vision Research 1999). The
// first probes are at the median, which bisects. Later ones are at random draws from the
// posterior (Thompson, Biometrika 1933), so that they surround the edge and drift of the server
// falls on both sides of it.
package capacity

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/tare-mesh/tare/internal/base/condition"
	"github.com/tare-mesh/tare/internal/base/lists"
	"github.com/tare-mesh/tare/internal/base/strict"
)

// Figures are the results of one load.
type Figures struct {
	Success  *float64 // share of the requests, nil if none was measured
	Answered float64  // answers per second
	// TimesMS are the response times of successful requests by the names of figures, in ms, empty if none
	// succeeded.
	TimesMS map[string]float64
	// GeneratorOK is false if the generator was the limit, not the server.
	GeneratorOK bool

	Intended, Completed int64
	Growth              int64 // of the backlog
}

// Bound is a bound on one figure of a load: "p99 < 50ms", "errors < 0.1%", "rate >= 950".
type Bound struct {
	Text    string
	figure  figure
	compare condition.Comparison
	limit   float64
}

// figure is a figure that can be bounded.
type figure struct {
	name string
	unit string // ms, % or /s
	// quantile of the response times, 0..1, negative if it is none.
	quantile float64
}

// figures are in the order in which errors list them. Times are response times.
var figures = []figure{
	{"p50", "ms", 0.5},
	{"p75", "ms", 0.75},
	{"p90", "ms", 0.9},
	{"p95", "ms", 0.95},
	{"p99", "ms", 0.99},
	{"p99.9", "ms", 0.999},
	{"p99.99", "ms", 0.9999},
	{"mean", "ms", -1},
	{"max", "ms", 1},
	{"errors", "%", -1},
	{"success", "%", -1},
	{"rate", "/s", -1},
}

// ParseBounds reads bounds with commas between them.
func ParseBounds(text string) ([]Bound, error) {
	var bounds []Bound
	for part := range strings.SplitSeq(text, ",") {
		b, err := parseBound(strings.TrimSpace(part))
		if err != nil {
			return nil, err
		}
		bounds = append(bounds, b)
	}
	return bounds, nil
}

func parseBound(text string) (Bound, error) {
	b, t := Bound{Text: text}, condition.New(text)
	name := strings.TrimSpace(t.While(func(r rune) bool { return !condition.IsSign(r) }))
	compare, ok := condition.Compare(t.While(condition.IsSign))
	if !ok || compare.Sign == "==" || compare.Sign == "!=" {
		return b, fmt.Errorf("%.60q has no < or >: write it as p99 < 50ms, errors < 0.1%% or rate > 950", text)
	}
	i := slices.IndexFunc(figures, func(f figure) bool { return f.name == name })
	if i < 0 {
		known := lists.Map(figures, func(f figure) string { return f.name })
		return b, fmt.Errorf("%.60q: unknown figure %.20q: %s", text, name, strict.DidYouMean(name, known))
	}
	b.figure, b.compare = figures[i], compare
	var err error
	if b.limit, err = b.figure.parse(strings.TrimSpace(t.While(func(rune) bool { return true }))); err != nil {
		return b, fmt.Errorf("%.60q: %w", text, err)
	}
	return b, nil
}

// parse reads a limit in the figure's unit.
func (f figure) parse(text string) (float64, error) {
	number := text
	switch f.unit {
	case "ms":
		if d, err := time.ParseDuration(text); err == nil {
			return float64(d) / 1e6, nil
		}
	case "%":
		v, err := ParseShare(text)
		if err != nil {
			return 0, fmt.Errorf("limit of %s: %w", f.name, err)
		}
		return v, nil
	case "/s":
		number = strings.TrimSpace(strings.TrimSuffix(text, "/s"))
	}
	v, err := strict.Number(number)
	if err != nil {
		return 0, fmt.Errorf("%.20q is not a limit of %s, such as %s", text, f.name, map[string]string{"ms": "50ms", "/s": "950"}[f.unit])
	}
	return v, nil
}

// ParseShare reads a share of requests, "99.9%" or 0.999, in percent. A number from 1 on without % has no clear
// meaning.
func ParseShare(text string) (float64, error) {
	number, percent := strings.CutSuffix(text, "%")
	number = strings.TrimSpace(number)
	v, err := strict.Number(number)
	switch {
	case err != nil:
		return 0, fmt.Errorf("%.20q is not a share, such as 99.9%% or 0.999", text)
	case percent && v >= 0 && v <= 100:
		return v, nil
	case percent || v < 0 || v > 100:
		return 0, fmt.Errorf("%.20q is not between 0%% and 100%%", text)
	case v >= 1:
		return 0, fmt.Errorf("%.20q without %% is not below 1: write %s%% or %g", text, number, v/100)
	}
	return strconv.ParseFloat(strconv.FormatFloat(v, 'f', -1, 64)+"e2", 64) // exact, which 100*v is not
}

// OfFailures reports whether the bound is on the share of requests that fail or succeed.
func (b Bound) OfFailures() bool { return b.figure.unit == "%" }

// Check compares a load with the bound. undecided is the reason why it cannot be decided.
func (b Bound) Check(x *Figures) (holds bool, value float64, undecided string) {
	switch {
	case x.Success == nil:
		return false, 0, "no request was measured"
	case b.figure.unit != "ms":
	case len(x.TimesMS) == 0:
		return false, 0, "no request succeeded, so there are no response times"
	case b.figure.quantile >= 0 && 1-*x.Success > 1-b.figure.quantile:
		return false, 0, fmt.Sprintf("%.4g %% of the requests failed, so the %s of all requests has no time", 100*(1-*x.Success), b.figure.name)
	}
	value = b.figure.value(x)
	if holds = b.compare.Holds(value, b.limit); !holds && !x.GeneratorOK && b.figure.unit != "%" { // its lateness only adds to times
		return false, 0, fmt.Sprintf("the generator was the limit, and %s with it", b.Value(value))
	}
	return holds, value, ""
}

// TimeLimit returns the percentile and its upper limit in ms, if the bound is one of response times.
func (b Bound) TimeLimit() (percentile string, ms float64, ok bool) {
	return b.figure.name, b.limit, b.compare.Upper() && b.figure.quantile > 0 && b.figure.quantile < 1
}

// value returns the figure of a load, in its unit.
func (f figure) value(x *Figures) float64 {
	switch f.name {
	case "errors":
		return 100 * (1 - *x.Success)
	case "success":
		return 100 * *x.Success
	case "rate":
		return x.Answered
	}
	return x.TimesMS[f.name]
}

// Value is a value of the bound's figure in words: "p99 51.2 ms".
func (b Bound) Value(value float64) string {
	number := strconv.FormatFloat(value, 'g', 4, 64)
	if value >= 1000 {
		number = strconv.FormatFloat(value, 'f', 0, 64)
	}
	return b.figure.name + " " + number + map[string]string{"ms": " ms", "%": " %", "/s": "/s"}[b.figure.unit]
}

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

const (
	steps = 400 // of the grid of capacities
	// lapse is the probability of a miss far below the capacity, and of luck far above it.
	lapse = 0.02
	// bisections is the number of probes at the median.
	bisections = 5
)

// slopes are the widths of the edge on the axis of ln(rate), all equally likely at first.
var slopes = []float64{0.01, 0.03, 0.1, 0.3}

// Search is the state of one search. The capacity is the rate at which half of the probes hold.
type Search struct {
	logs   []float64 // grid of ln(capacity)
	weight [][]float64
	rng    *rand.Rand
	probes int
}

// New searches between two rates above 0, all equally likely on the axis of their logarithms.
func New(low, high float64, seed uint64) *Search {
	s := &Search{rng: rand.New(rand.NewPCG(seed, 0x6d61_78))}
	from, to := math.Log(low), math.Log(high)
	for i := range steps {
		s.logs = append(s.logs, from+(to-from)*(float64(i)+0.5)/steps)
	}
	for range slopes {
		s.weight = append(s.weight, slices.Repeat([]float64{1}, steps))
	}
	return s
}

// Next is the rate of the next probe.
func (s *Search) Next() float64 {
	if s.probes < bisections {
		return s.quantile(0.5)
	}
	return s.quantile(s.rng.Float64())
}

func (s *Search) Observe(rate float64, held bool) {
	s.probes++
	at, most := math.Log(rate), 0.0
	for j, width := range slopes {
		for i, capacity := range s.logs {
			p := lapse + (1-2*lapse)/(1+math.Exp(-(capacity-at)/width))
			if !held {
				p = 1 - p
			}
			s.weight[j][i] *= p
			most = max(most, s.weight[j][i])
		}
	}
	for _, row := range s.weight { // the weights would vanish after some hundred probes
		for i := range row {
			row[i] /= most
		}
	}
}

// Interval is the median of the posterior with the interval that has the given probability.
func (s *Search) Interval(probability float64) (low, median, high float64) {
	return s.quantile((1 - probability) / 2), s.quantile(0.5), s.quantile((1 + probability) / 2)
}

// quantile returns a quantile of the capacity, linear within a step of the grid.
func (s *Search) quantile(q float64) float64 {
	sums := make([]float64, steps)
	total := 0.0
	for i := range sums {
		for j := range s.weight {
			sums[i] += s.weight[j][i]
		}
		total += sums[i]
	}
	left := q * total
	step := s.logs[1] - s.logs[0]
	for i, w := range sums {
		if left <= w && w > 0 {
			return math.Exp(s.logs[i] + step*(left/w-0.5))
		}
		left -= w
	}
	return math.Exp(s.logs[steps-1] + step/2)
}
