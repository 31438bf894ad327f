package stats

import (
	"math"
	"math/rand/v2"
	"slices"
	"sync"
)

// Spending is a group-sequential one-sided t test: after each of several looks at growing data it may reject, and
// over all looks together it rejects a true hypothesis with probability alpha.
//
// The error is spent by the share t of the planned pairs, as alpha·t²: alpha spending of Lan and DeMets (Biometrika
// 1983) with the power family of Kim and DeMets (Biometrika 1987). The variance is unknown and the first looks have
// few pairs, where levels from the normal distribution reject too often: 6 % of true hypotheses for 8 pairs. So the
// critical values come from simulated t statistics, with a fixed seed. spending_test.go has the error.
type Spending struct {
	critical []float64 // of t, by number of pairs, zero for no test
}

// MaxLooks bounds the planned pairs of [NewSpending].
const MaxLooks = 300

// spendingPaths is the number of simulated experiments: alpha is exact to about 1 % of itself.
const spendingPaths = 200_000

type spendingKey struct {
	first, looks, last int
	alpha              float64
}

var (
	spendingsLock sync.Mutex
	spendings     = map[spendingKey]Spending{}
)

// NewSpending plans looks after every pair from first to looks, at level alpha over all of them.
func NewSpending(first, looks int, alpha float64) Spending {
	return NewSpendingUntil(first, looks, looks, alpha)
}

// NewSpendingUntil is [NewSpending] for an experiment that ends after fewer pairs than planned: the last look spends
// all the error that is left. Lan and DeMets allow looks at times that were not planned, unless the results chose
// them. So the end must be one by time, or by pairs that were lost.
func NewSpendingUntil(first, looks, last int, alpha float64) Spending {
	looks = max(min(looks, MaxLooks), MinN)
	first = min(max(first, MinN), looks)
	key := spendingKey{first, looks, min(last, looks), alpha}
	spendingsLock.Lock()
	defer spendingsLock.Unlock()
	s, done := spendings[key]
	if !done {
		s = Spending{critical: spend(key)}
		spendings[key] = s
	}
	return s
}

// path is a simulated experiment that has not rejected yet.
type path struct{ sum, squares, t float64 }

// spend chooses the critical value of each look so that the rejected experiments are the share that may be spent.
func spend(plan spendingKey) []float64 {
	source := rand.New(rand.NewPCG(1983, 1987)) //nolint:gosec // no secret
	critical := make([]float64, max(plan.last, 0)+1)
	if plan.last < plan.first {
		return critical // no look
	}
	alive := make([]path, spendingPaths)
	rejected := 0
	for n := 1; n <= plan.last; n++ {
		for i := range alive {
			x := source.NormFloat64()
			alive[i].sum += x
			alive[i].squares += x * x
		}
		if n < plan.first {
			continue
		}
		for i := range alive {
			alive[i].t = alive[i].student(float64(n))
		}
		share := float64(n) / float64(plan.looks)
		if n == plan.last {
			share = 1
		}
		due := int(math.Round(plan.alpha*share*share*spendingPaths)) - rejected
		if due <= 0 {
			critical[n] = math.Inf(1)
			continue
		}
		const far = 1 // more than the due experiments are beyond it, in all but the smallest plans
		var values []float64
		for _, p := range alive {
			if p.t > far || n < 2*MinN {
				values = append(values, p.t)
			}
		}
		slices.Sort(values)
		due = min(due, len(values))
		critical[n] = values[len(values)-due]
		alive = slices.DeleteFunc(alive, func(p path) bool { return p.t >= critical[n] })
		rejected += due
	}
	return critical
}

// student is the t statistic of n standard normal observations.
func (p path) student(n float64) float64 {
	mean := p.sum / n
	return mean / math.Sqrt((p.squares/n-mean*mean)/(n-1))
}

// Bounds are the mean of x with its repeated interval: the values that the test does not reject on either side
// (Jennison and Turnbull, JRSS B 1989). Over all looks, each side is wrong with probability alpha at most.
// Without a look or without spread there is no interval.
func (s Spending) Bounds(x []float64) Result {
	r := Result{N: len(x), Why: TooFew, SD: SD(x), DF: float64(len(x) - 1)}
	r.Estimate = math.NaN()
	if len(x) > 0 {
		r.Estimate = Mean(x)
	}
	r.SE = r.SD / math.Sqrt(float64(len(x)))
	if !s.Due(len(x)) {
		return r
	}
	if r.Why = Computed; !(r.SE > 1e-12*math.Abs(r.Estimate)) {
		r.Why = NoSpread
		return r
	}
	if half := s.critical[len(x)] * r.SE; !math.IsInf(half, 1) {
		r.set(r.Estimate-half, r.Estimate+half)
	}
	return r
}

// Due reports whether a look is planned after n pairs.
func (s Spending) Due(n int) bool { return n < len(s.critical) && n >= MinN && s.critical[n] > 0 }

// Widen multiplies the interval around the estimate. Without an interval it does nothing.
func (r *Result) Widen(factor float64) {
	if half, ok := r.HalfWidth(); ok {
		r.set(r.Estimate-factor*half, r.Estimate+factor*half)
	}
}

// Lasting is the factor by which the standard error of the mean of x grows if the autocorrelation rho of neighbours
// decays geometrically: the root of (1+rho)/(1-rho) (Bayley, Hammersley, JRSS Supplement 1946). rho is the estimate
// without its bias of about -(1+4·rho)/n (Kendall, Biometrika 1954), and half of its standard error more. The factor is
// at least 1, and 1 below six values.
func Lasting(x []float64) float64 {
	n, m := float64(len(x)), Mean(x)
	if len(x) < 6 || noSpread(SD(x), maxAbs(x)) {
		return 1
	}
	sum, squares := 0.0, 0.0
	for i, v := range x {
		squares += square(v - m)
		if i > 0 {
			sum += (v - m) * (x[i-1] - m)
		}
	}
	rho := (n*sum/squares+1)/(n-4) + 0.5/math.Sqrt(n)
	rho = math.Min(0.9, math.Max(0, rho))
	return math.Sqrt((1 + rho) / (1 - rho))
}
