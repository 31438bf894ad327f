package stats

import (
	"math"
	"math/rand/v2"
	"slices"

	"github.com/tare-mesh/tare/internal/base/lists"
)

// Dependent returns the autocorrelation of neighbours of a series around the means of its
// segments, if a one-sided permutation test of it is significant at level alpha. A series
// that depends on its past drifts for a while and looks like a change: at an
// autocorrelation of 0.5, sixteen values without a change show one in a third of all series.
func Dependent(x []float64, changes []Change, alpha float64) (lag1 float64, ok bool) {
	residuals := slices.Clone(x)
	from, found := 0, append(slices.Clone(changes), Change{At: len(x)})
	for _, c := range found {
		m := Mean(x[from:c.At])
		for i := from; i < c.At; i++ {
			residuals[i] -= m
		}
		from = c.At
	}
	o, ok := InOrder([][]float64{residuals})
	return o.Lag1, ok && o.Lag1P <= alpha
}

// Order is the result of a test whether series in order of time are exchangeable.
type Order struct {
	// Lag1 is the mean autocorrelation of neighbours and its one-sided p-value.
	Lag1, Lag1P float64
	// Trend is the mean size of the correlation with time, 0..1, and its p-value.
	Trend, TrendP float64
}

// orderPermutations of each test.
const orderPermutations = 1999

// InOrder tests whether the values of several series, read at the same times, depend on
// the time: on the value before, or on the place in the series. The first is the test of von
// Neumann (Annals of Mathematical Statistics 1941) as a permutation test. All series are permuted together,
// since they share their noise. The permutations are drawn from a fixed seed. Not ok below
// six values, or without any series that varies.
func InOrder(series [][]float64) (o Order, ok bool) {
	var z [][]float64
	for _, x := range series {
		if len(x) < 6 || len(x) != len(series[0]) || !finite(x) || noSpread(SD(x), maxAbs(x)) {
			continue
		}
		m, sd := Mean(x), SD(x)
		s := lists.Map(x, func(v float64) float64 { return (v - m) / sd })
		z = append(z, s)
	}
	if z == nil {
		return o, false
	}
	n := len(z[0])
	places := make([]int, n)
	for i := range places {
		places[i] = i
	}
	o.Lag1, o.Trend = lag1(z, places), trend(z, places)
	r := rand.New(rand.NewPCG(1941, uint64(n)))
	lags, trends := 1, 1
	for range orderPermutations {
		r.Shuffle(n, func(i, j int) { places[i], places[j] = places[j], places[i] })
		if lag1(z, places) >= o.Lag1-1e-12 {
			lags++
		}
		if trend(z, places) >= o.Trend-1e-12 {
			trends++
		}
	}
	o.Lag1P, o.TrendP = float64(lags)/(orderPermutations+1), float64(trends)/(orderPermutations+1)
	return o, true
}

// lag1 is the mean autocorrelation of standardised series, in the order of places.
func lag1(z [][]float64, places []int) float64 {
	sum := 0.0
	for _, s := range z {
		for i := 1; i < len(places); i++ {
			sum += s[places[i]] * s[places[i-1]]
		}
	}
	return sum / float64(len(z)*(len(places)-1))
}

// trend is the mean size of the correlations of standardised series with time.
func trend(z [][]float64, places []int) float64 {
	n := float64(len(places))
	sum := 0.0
	for _, s := range z {
		c := 0.0
		for i, p := range places {
			c += s[p] * float64(i) // the mean of s is 0
		}
		sum += math.Abs(c)
	}
	return sum / float64(len(z)) / math.Sqrt((n-1)*n*(n*n-1)/12)
}

// Outlier returns the value that lies farthest from the mean, in standard deviations, and
// the chance of one so far among normal observations: Grubbs's test ("Procedures for
// detecting outlying observations in samples", Technometrics 1969), two-sided. Not ok
// below five values or without spread.
func Outlier(x []float64) (at int, deviations, p float64, ok bool) {
	if len(x) < 5 || !finite(x) || noSpread(SD(x), maxAbs(x)) {
		return 0, 0, 0, false
	}
	m, sd, n := Mean(x), SD(x), float64(len(x))
	size := func(v float64) float64 { return math.Abs(v - m) }
	for i, v := range x {
		if size(v) > size(x[at]) {
			at = i
		}
	}
	deviations = (x[at] - m) / sd
	g2 := square(deviations)
	t := math.Sqrt(g2 * n * (n - 2) / math.Max(0, square(n-1)-n*g2)) // 0: one value differs from all others, which are equal
	return at, deviations, math.Min(1, 2*n*tDistribution(n-2).survival(t)), true
}

// Heterogeneity tests whether the rows of blocks (one value a level) have the same mean at
// every level. It is the F test of a randomised block design (Fisher, "The Design of
// Experiments", 1935). Levels of unequal noise have fewer degrees of freedom, by Greenhouse
// and Geisser's correction (Psychometrika 1959). p is nil below [MinN] blocks or two
// levels, or without noise.
func Heterogeneity(blocks [][]float64) *float64 {
	if len(blocks) < MinN || len(blocks[0]) < 2 || !finite(blocks...) {
		return nil
	}
	b, l := len(blocks), len(blocks[0])
	grand, means := 0.0, make([]float64, l)
	for _, row := range blocks {
		for j, v := range row {
			means[j] += v / float64(b)
			grand += v / float64(b*l)
		}
	}
	between, within := 0.0, 0.0
	for j := range means {
		between += float64(b) * square(means[j]-grand)
	}
	residuals := make([][]float64, l) // by level: rows without the means of block and level
	for _, row := range blocks {
		m := Mean(row)
		for j, v := range row {
			e := v - m - means[j] + grand
			residuals[j] = append(residuals[j], e)
			within += e * e
		}
	}
	df1, df2 := float64(l-1), float64((l-1)*(b-1))
	if noSpread(math.Sqrt(within), maxAbs(blocks...)) {
		return nil
	}
	squares := 0.0 // of the covariances of levels, whose trace is within
	for _, x := range residuals {
		for _, y := range residuals {
			c := 0.0
			for k := range b {
				c += x[k] * y[k]
			}
			squares += c * c
		}
	}
	epsilon := math.Min(1, math.Max(1/df1, within*within/(df1*squares)))
	return new(FSurvival(epsilon*df1, epsilon*df2, between/df1/(within/df2)))
}

// ExactEqual is the p-value of n equal differences other than zero: the chance that all
// signs of n symmetric differences agree (Fisher's sign-flip test). The missing spread
// adds no evidence.
func ExactEqual(n int) float64 { return math.Min(1, math.Pow(2, 1-float64(n))) }

// ExactApart is the p-value of two samples that are constant and differ: the chance of
// this division among all divisions of their observations.
func ExactApart(a, b int) float64 {
	la, _ := math.Lgamma(float64(a + 1))
	lb, _ := math.Lgamma(float64(b + 1))
	all, _ := math.Lgamma(float64(a + b + 1))
	return math.Min(1, 2*math.Exp(la+lb-all))
}

// HolmLevels returns the level at which Holm's step-down tests each hypothesis, given the
// others: alpha over the number of hypotheses less the number of others that are rejected
// before it. A hypothesis is rejected if its p-value is at most its level. A NaN is a test
// that was not made, and has level NaN.
func HolmLevels(p []float64, alpha float64) (levels []float64, live []int) {
	levels, order := ascending(p)
	live = make([]int, len(p))
	m := len(order)
	for _, i := range order {
		rejected := 0
		for _, j := range order {
			if j == i {
				continue
			}
			if !(p[j] <= alpha/float64(m-rejected)) {
				break
			}
			rejected++
		}
		live[i] = m - rejected
		levels[i] = alpha / float64(live[i])
	}
	return levels, live
}

const (
	// MinSegment is the least number of observations on either side of a change.
	MinSegment = 3
	// permutations of each test. The least p-value is 1/(permutations+1).
	permutations = 999
)

// Change is a point after which a series differs.
type Change struct {
	At int // index of the first observation after it
	P  float64
	// Before and After are the means on both sides, up to the next change.
	Before, After float64
}

// Changes finds the changes of the mean or the spread of a series, by E-divisive
// with means (Matteson, James, "A nonparametric approach for multiple change point
// analysis of multivariate data", JASA 2014). It is in use on histories of
// benchmarks (Daly et al., ICPE 2020). The part with the largest energy
// statistic is split if a permutation test allows it at level alpha, and so on
// in both halves. The permutations are drawn from a fixed seed: the same series
// gives the same answer. Fewer than eight observations cannot show a change at
// 0.05, since so few can be ordered in too few ways.
func Changes(x []float64, alpha float64) []Change {
	if !finite(x) || !(alpha > 0 && alpha < 1) {
		return nil
	}
	r := rand.New(rand.NewPCG(2014, uint64(len(x))))
	var found []Change
	var split func(from, to int)
	split = func(from, to int) {
		at, q := bestSplit(x[from:to])
		if at < 0 {
			return
		}
		if p := permuted(r, x[from:to], q); p <= alpha {
			found = append(found, Change{At: from + at, P: p})
			split(from, from+at)
			split(from+at, to)
		}
	}
	split(0, len(x))
	slices.SortFunc(found, func(a, b Change) int { return a.At - b.At })
	for i := range found {
		from, to := 0, len(x)
		if i > 0 {
			from = found[i-1].At
		}
		if i+1 < len(found) {
			to = found[i+1].At
		}
		found[i].Before, found[i].After = Mean(x[from:found[i].At]), Mean(x[found[i].At:to])
	}
	return found
}

// permuted is the share of orderings whose best split is at least as good as q.
func permuted(r *rand.Rand, x []float64, q float64) float64 {
	y := slices.Clone(x)
	as := 1
	for range permutations {
		r.Shuffle(len(y), func(i, j int) { y[i], y[j] = y[j], y[i] })
		if _, other := bestSplit(y); other >= q-1e-12*math.Abs(q) {
			as++
		}
	}
	return float64(as) / (permutations + 1)
}

// bestSplit is the index with the largest energy statistic of the two sides, or -1 if x is too short.
func bestSplit(x []float64) (at int, best float64) {
	n := len(x)
	at = -1
	if n < 2*MinSegment {
		return at, 0
	}
	// left and right are the sums of distances within the sides, all the sum over every pair.
	all, left := 0.0, 0.0
	for i := range x {
		for j := range i {
			all += math.Abs(x[i] - x[j])
		}
	}
	right := all
	for k := 1; k < n; k++ { // x[k-1] moves from the right side to the left
		for j := range x {
			d := math.Abs(x[k-1] - x[j])
			if j < k-1 {
				left += d
			} else {
				right -= d
			}
		}
		if k < MinSegment || n-k < MinSegment {
			continue
		}
		a, b := float64(k), float64(n-k)
		between := all - left - right
		energy := 2*between/(a*b) - 2*left/(a*(a-1)) - 2*right/(b*(b-1))
		if q := a * b / (a + b) * energy; at < 0 || q > best {
			at, best = k, q
		}
	}
	return at, best
}
