package stats

import (
	"math"
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
	var residual float64
	for _, p := range points {
		residual += p.Weight * square(p.Y-fit.Intercept.Estimate-slope*p.X)
	}
	df := float64(len(points) - 2)
	s := math.Sqrt(residual / df)
	switch {
	case !(confidence > 0 && confidence < 1):
		fit.Intercept.Why, fit.Slope.Why = BadLevel, BadLevel
		return fit
	case !(residual > 1e-24*w*my*my):
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
	p := FSurvival(between, within, f)
	return &p
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
