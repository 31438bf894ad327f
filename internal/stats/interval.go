package stats

import (
	"math"
	"sync"
)

// HalfWidth is half the width of the interval. It is not ok if there is none.
func (i Interval) HalfWidth() (float64, bool) {
	if !i.Known() {
		return 0, false
	}
	return (*i.High - *i.Low) / 2, true
}

// Map returns f of the estimate and of the known ends. f increases.
func (i Interval) Map(f func(float64) float64) Interval {
	out := Interval{Estimate: f(i.Estimate)}
	if i.Low != nil {
		out.Low = new(f(*i.Low))
	}
	if i.High != nil {
		out.High = new(f(*i.High))
	}
	return out
}

// Times returns the interval in a unit that is smaller by a factor.
func (i Interval) Times(factor float64) Interval {
	return i.Map(func(v float64) float64 { return v * factor })
}

// Excludes reports whether there is an interval and v lies outside it.
func (i Interval) Excludes(v float64) bool {
	return i.Known() && (v < *i.Low || v > *i.High)
}

// Result is an estimate with its interval, test and spread.
type Result struct {
	Interval
	N  int     // observations, or pairs
	SD float64 // of the observations, or of the paired differences, NaN below two
	// P is the two-sided p-value of "the true value is zero" ("one" for a
	// ratio). It is nil if there is no interval.
	P   *float64
	Why Why
	// SE is the standard error of the estimate, or of a ratio's logarithm, and DF
	// its degrees of freedom. Both are 0 without an interval.
	SE, DF float64
}

// MeanInterval estimates the mean of x with Student's interval.
func MeanInterval(x []float64, confidence float64) Result {
	return student(x, confidence, maxAbs(x))
}

// student is Student's one-sample interval and test. The scale is the size of
// the values x was computed from, against which rounding is judged.
func student(x []float64, confidence, scale float64) Result {
	r := Result{N: len(x), SD: SD(x)}
	r.Estimate = Mean(x)
	switch {
	case !finite(x):
		r.Why = NotFinite
	case !(confidence > 0 && confidence < 1):
		r.Why = BadLevel
	case len(x) < MinN:
		r.Why = TooFew
	case noSpread(r.SD, scale):
		r.Why = NoSpread
	default:
		se := r.SD / math.Sqrt(float64(len(x)))
		r.fill(r.Estimate, se, float64(len(x)-1), confidence)
	}
	return r
}

// fill sets interval and p-value from an estimate, its standard error and the degrees of freedom.
func (r *Result) fill(estimate, se, df, confidence float64) {
	half := tQuantile(df, 1-(1-confidence)/2) * se
	r.set(estimate-half, estimate+half)
	r.P, r.SE, r.DF = new(2*tDistribution(df).cdf(-math.Abs(estimate/se))), se, df
}

// memo has values that are found by search, and that come again.
type memo[K comparable] struct {
	sync.Mutex
	known map[K]float64
}

// mostKnown bounds a memo. A full one is cleared.
const mostKnown = 4096

// value returns the value of a key. It is computed once, or a few times if several goroutines need it at once.
func (m *memo[K]) value(key K, compute func() float64) float64 {
	m.Lock()
	v, ok := m.known[key]
	m.Unlock()
	if ok {
		return v
	}
	v = compute()
	m.Lock()
	defer m.Unlock()
	if m.known == nil || len(m.known) >= mostKnown {
		m.known = map[K]float64{}
	}
	m.known[key] = v
	return v
}

// quantiles of Student's t, by degrees of freedom and p: with whole degrees of freedom they come again all through a report,
// with Welch's several times in one comparison.
var quantiles memo[[2]float64]

func tQuantile(df, p float64) float64 {
	return quantiles.value([2]float64{df, p}, func() float64 { return tDistribution(df).quantile(p) })
}

// exp carries a result on the log scale over to ratios. A ratio beyond every number is unknown.
func (r Result) exp() Result {
	r.Estimate = math.Exp(r.Estimate)
	if math.IsInf(r.Estimate, 1) {
		return Result{Interval: Interval{Estimate: math.NaN()}, N: r.N, SD: r.SD, Why: NotFinite}
	}
	if !r.Known() {
		return r
	}
	low, high := math.Exp(*r.Low), math.Exp(*r.High)
	if math.IsInf(high, 1) {
		return Result{Interval: Interval{Estimate: r.Estimate}, N: r.N, SD: r.SD, Why: NotFinite}
	}
	r.set(low, high)
	return r
}

// MinN is the least number of observations, or of pairs, that bear an interval.
// The package documentation has the reason.
const MinN = 3

// Why is the reason for an absent interval.
type Why string

const (
	Computed      Why = ""                 // the interval is present
	TooFew        Why = "too few"          // fewer than MinN observations
	NoSpread      Why = "no spread"        // every observation is the same
	NotFinite     Why = "not finite"       // NaN or infinity among the observations
	NotPositive   Why = "not positive"     // a ratio of values that are not all above zero
	UnequalLength Why = "unequal length"   // pairs without partners
	BadLevel      Why = "level not in 0,1" // a confidence that is none
)

// Interval is an estimate and the confidence interval around it. Low and High
// are both nil if no interval can be computed.
type Interval struct {
	Estimate float64  `json:"estimate"`
	Low      *float64 `json:"low,omitempty"`
	High     *float64 `json:"high,omitempty"`
}

// Known reports whether there is an interval.
func (i Interval) Known() bool { return i.Low != nil && i.High != nil }

func (i *Interval) set(low, high float64) { i.Low, i.High = &low, &high }
