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
	"math"
	"math/rand/v2"
)

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
		row := make([]float64, steps)
		for i := range row {
			row[i] = 1
		}
		s.weight = append(s.weight, row)
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

// Observe takes the result of a probe.
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
