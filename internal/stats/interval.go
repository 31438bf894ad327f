package stats

import (
	"math"
	"slices"
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
	Computed    Why = ""             // the interval is present
	TooFew      Why = "too few"      // fewer than MinN observations
	NoSpread    Why = "no spread"    // every observation is the same
	NotFinite   Why = "not finite"   // NaN or infinity among the observations
	NotPositive Why = "not positive" // a ratio of values that are not all above zero
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

// Bounded is an instant that observations bound: it lies in (After, Before]. Before is +Inf if it was not seen to come.
//
// Waits are times until an observation would have shown the instant, at random: how long before an instant the last
// request of one connection was sent, or how long after it the next answer came. They assume that one connection alone
// shows the instant, the worst case. Without Waits only After and Before are known.
type Bounded struct {
	After, Before float64
	Waits         []float64
}

// boundLevel is the probability that a bound of a quantile that rests on Waits is wrong. With several connections for
// each worker of a proxy it is far lower.
const boundLevel = 0.01

// LatestBounds bounds a quantile of instants of which After is an observation: the last event that was seen. Instants are
// later than the last event that was seen, but an event that was missed came within a random wait after it. So if a quantile
// were much later than the latest events of n instants, some of them would have been seen. The upper bound is the least
// that this excludes with probability 1 %, and not above the quantile of Before. It is +Inf if that is unknown.
func LatestBounds(all []Bounded, q float64) (low, high float64, known bool) {
	if len(all) == 0 {
		return math.NaN(), math.NaN(), false
	}
	after, before, waits := sides(all)
	k := rank(len(all), q)
	low, high = after[k-1], before[k-1]
	last := make([]float64, len(all)) // +Inf where it had not come
	for i, b := range all {
		if last[i] = b.After; math.IsInf(b.Before, 1) {
			last[i] = b.Before
		}
	}
	slices.Sort(last)
	for j, d := range missed(len(all)-k+1, waits) {
		high = min(high, last[len(last)-1-j]+d)
	}
	return low, max(low, high), true
}

// EarliestBounds is the mirror image of [LatestBounds]: Before is the first event that was seen, and the instant was
// within a random wait before it.
func EarliestBounds(all []Bounded, q float64) (low, high float64, known bool) {
	if len(all) == 0 {
		return math.NaN(), math.NaN(), false
	}
	after, before, waits := sides(all)
	k := rank(len(all), q)
	low, high = after[k-1], before[k-1]
	for j, d := range missed(k, waits) {
		low = max(low, before[j]-d)
	}
	return min(low, high), high, true
}

// rank is the place of a quantile among n values in ascending order, from 1.
func rank(n int, q float64) int { return min(n, max(1, int(math.Ceil(q*float64(n)-1e-9)))) }

// sides returns the lower ends, the upper ends and the waits of instants, each in ascending order. There are no waits if an
// instant has none.
func sides(all []Bounded) (after, before, waits []float64) {
	complete := true
	for _, b := range all {
		after, before, waits = append(after, b.After), append(before, b.Before), append(waits, b.Waits...)
		complete = complete && len(b.Waits) > 0
	}
	if !complete {
		waits = nil
	}
	for _, values := range [][]float64{after, before, waits} {
		slices.Sort(values)
	}
	return after, before, waits
}

// missed returns how far n instants may lie beyond the observation with j others beyond it, by j. If waits are within d with
// probability p, no more than j of n instants are seen within d with the probability of the binomial distribution. d is where
// that falls below the level of this j. Several j are tried: 0 for instants that are alike, others for outliers.
func missed(n int, waits []float64) map[int]float64 {
	all := map[int]float64{}
	for j, level := range map[int]float64{n / 2: boundLevel / 4, n / 4: boundLevel / 4, 0: boundLevel / 2} {
		if j >= n {
			continue
		}
		at := int(math.Ceil(ShareBound(int64(j), int64(n), level) * float64(len(waits)+1)))
		if at <= len(waits) {
			all[j] = waits[max(1, at)-1]
		}
	}
	return all
}
