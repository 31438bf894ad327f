package stats

import (
	"math"
	"slices"
)

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
