package main

import (
	"github.com/tare-mesh/tare/internal/answer/stats"
)

// Sample is the memory, descriptors and threads of tare after a number of trials.
type Sample struct {
	Trials float64 `json:"trials"`
	usage
}

// Growth is a straight line through samples, per 100 trials, with the interval of 95 %.
type Growth struct {
	First  float64  `json:"first"` // mean of the first group of samples
	Last   float64  `json:"last"`  // mean of the last group
	Per100 float64  `json:"per100Trials"`
	Low    *float64 `json:"low"`
	High   *float64 `json:"high"`
	Groups int      `json:"groups"`
}

// maxGroups bounds the points of a line. Neighbouring samples depend on each other, means of groups
// hardly do.
const maxGroups = 24

// growth fits a line through means of groups. It leaves out the first fifth of the samples: the heap
// grows to the limit of the garbage collector there.
func growth(samples []Sample, of func(usage) float64) (g Growth, ok bool) {
	samples = samples[len(samples)/5:]
	size := max(1, len(samples)/maxGroups)
	var points []stats.Point
	for i := 0; i+size <= len(samples); i += size {
		p := stats.Point{Weight: 1, Group: i}
		for _, s := range samples[i : i+size] {
			p.X += s.Trials / float64(size)
			p.Y += of(s.usage) / float64(size)
		}
		points = append(points, p)
	}
	if len(points) < stats.MinN {
		return g, false
	}
	g = Growth{First: points[0].Y, Last: points[len(points)-1].Y, Groups: len(points)}
	line := stats.Line(points, 0.95).Slope
	switch {
	case line.Known():
		low, high := *line.Low*100, *line.High*100
		g.Per100, g.Low, g.High = line.Estimate*100, &low, &high
	case line.Why == stats.NoSpread: // every mean is the same
		zero := 0.0
		g.Low, g.High = &zero, &zero
	default:
		return g, false
	}
	return g, true
}
