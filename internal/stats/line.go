package stats

import (
	"math"

	"github.com/tare-mesh/tare/internal/base/lists"
)

// LineFit is a straight line through observations.
type LineFit struct {
	Intercept, Slope Result
	N                int
	// Middle is the weighted mean of X, where the line is known best.
	Middle float64
	// Misfit is the p-value of "the means of the groups lie on the line". It is nil if
	// the groups have no replicates, or with fewer than three groups.
	Misfit *float64
}

// Point is one observation of a line. Weight is in proportion to one over its
// variance. Group identifies replicates.
type Point struct {
	X, Y, Weight float64
	Group        int
}

// Line fits y = intercept + slope·x by weighted least squares, with Student's
// intervals on n-2 degrees of freedom. It checks the line against the scatter of
// replicates: the lack-of-fit F test (Draper, Smith, "Applied Regression
// Analysis", 3rd ed. 1998, 2.1).
func Line(points []Point, confidence float64) LineFit {
	fit := LineFit{N: len(points), Intercept: Result{N: len(points), SD: math.NaN()}, Slope: Result{N: len(points), SD: math.NaN()}}
	absent := func(why Why) LineFit {
		fit.Intercept.Estimate, fit.Slope.Estimate = math.NaN(), math.NaN()
		fit.Intercept.Why, fit.Slope.Why = why, why
		return fit
	}
	var w, wx, wy float64
	for _, p := range points {
		if !finite([]float64{p.X, p.Y, p.Weight}) || !(p.Weight > 0) {
			return absent(NotFinite)
		}
		w, wx, wy = w+p.Weight, wx+p.Weight*p.X, wy+p.Weight*p.Y
	}
	if len(points) < MinN {
		return absent(TooFew)
	}
	mx, my := wx/w, wy/w
	var sxx, sxy float64
	for _, p := range points {
		d := p.X - mx
		sxx += p.Weight * d * d
		sxy += p.Weight * d * (p.Y - my)
	}
	if !(sxx > 1e-18*w*mx*mx) {
		return absent(NoSpread)
	}
	slope := sxy / sxx
	fit.Middle = mx
	fit.Slope.Estimate, fit.Intercept.Estimate = slope, my-slope*mx
	residual := lists.Sum(points, func(p Point) float64 { return p.Weight * square(p.Y-fit.Intercept.Estimate-slope*p.X) })
	df := float64(len(points) - 2)
	s := math.Sqrt(residual / df)
	if !(residual > 1e-24*w*my*my) {
		fit.Intercept.Why, fit.Slope.Why = NoSpread, NoSpread
		return fit
	}
	fit.Slope.fill(slope, s/math.Sqrt(sxx), df, confidence)
	fit.Intercept.fill(fit.Intercept.Estimate, s*math.Sqrt(1/w+mx*mx/sxx), df, confidence)
	fit.Misfit = lackOfFit(points, residual)
	return fit
}

func lackOfFit(points []Point, residual float64) *float64 {
	type group struct{ w, wy float64 }
	groups := map[int]*group{}
	for _, p := range points {
		g := groups[p.Group]
		if g == nil {
			g = &group{}
			groups[p.Group] = g
		}
		g.w, g.wy = g.w+p.Weight, g.wy+p.Weight*p.Y
	}
	var pure float64
	for _, p := range points {
		g := groups[p.Group]
		pure += p.Weight * square(p.Y-g.wy/g.w)
	}
	between, within := float64(len(groups)-2), float64(len(points)-len(groups))
	if between < 1 || within < 1 || !(pure > 0) {
		return nil
	}
	f := math.Max(0, residual-pure) / between / (pure / within)
	return new(FSurvival(between, within, f))
}

// WeighByGroup gives each point the weight one over the square of its group's
// mean: noise in proportion to the figure, as costs have it. Groups must not be
// around zero.
func WeighByGroup(points []Point) {
	sum, n := map[int]float64{}, map[int]float64{}
	for _, p := range points {
		sum[p.Group] += p.Y
		n[p.Group]++
	}
	for i, p := range points {
		points[i].Weight = square(n[p.Group] / sum[p.Group])
	}
}

// Slope is the slope of the least-squares line of y on x. below is the probability of one as low or lower where y does not
// depend on x. Errors are normal and independent (Student's t), unlike those of [Trend]. It is 1 with fewer than three points.
func Slope(x, y []float64) (slope, below float64) {
	from, slope := Regression(x, y)
	df, rest := float64(len(x)-2), 0.0
	if df < 1 || math.IsNaN(slope) {
		return slope, 1
	}
	for i := range x {
		e := y[i] - from - slope*x[i]
		rest += e * e
	}
	if rest == 0 {
		return slope, map[bool]float64{true: 0, false: 1}[slope < 0]
	}
	t := slope / math.Sqrt(rest/df/(covariance(x, x)*(df+1)))
	return slope, 1 - tDistribution(df).survival(t)
}

// Trend is the slope of a straight line through a series in order of time, with Student's interval. Neighbours of a series
// often depend on each other, so that n of them are worth fewer. The lag-1 autocorrelation r of the residuals, less its bias in
// short series (Marriott, Pope, Biometrika 1954), gives the number that they are worth: n·(1-r)/(1+r).
func Trend(x, y []float64, confidence float64) Result {
	points := make([]Point, len(x))
	for i := range x {
		points[i] = Point{X: x[i], Y: y[i], Weight: 1, Group: i}
	}
	fit := Line(points, confidence)
	slope := fit.Slope
	if slope.Why != Computed {
		return slope
	}
	residuals := make([]float64, len(x))
	for i := range x {
		residuals[i] = y[i] - fit.Intercept.Estimate - slope.Estimate*x[i]
	}
	worth := float64(len(x)) / inflation(residuals)
	slope.fill(slope.Estimate, slope.SE*math.Sqrt(float64(len(x))/worth), math.Max(1, worth-2), confidence)
	return slope
}

// mostLag bounds the autocorrelation that a short series shows.
const mostLag = 0.9

// inflation is the number of neighbours that are worth one independent value.
func inflation(residuals []float64) float64 {
	var sum, lag float64
	for i, v := range residuals {
		sum += v * v
		if i > 0 {
			lag += v * residuals[i-1]
		}
	}
	r, n := lag/sum, float64(len(residuals))
	r = math.Min(math.Max(0, r+(2+4*r)/n), mostLag)
	return (1 + r) / (1 - r)
}
