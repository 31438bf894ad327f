package schedule

import (
	"github.com/tare-mesh/tare/internal/load"
)

// Share is part i of n of a whole that is divided evenly.
func Share(whole, n, i int) int {
	s := whole / n
	if i < whole%n {
		s++
	}
	return s
}

// Rotation returns the order in which targets are visited, by smooth weighted round
// robin: each target gains its weight every step, and the target with the highest
// value is visited and loses the sum of the weights. A load with an order has that.
func Rotation(p *load.Profile) []int {
	if len(p.Order) > 0 {
		return p.Order
	}
	return byWeight(p)
}

func byWeight(p *load.Profile) []int {
	if len(p.Weights) == 0 {
		order := make([]int, len(p.Targets))
		for i := range order {
			order[i] = i
		}
		return order
	}
	var sum int
	for _, w := range p.Weights {
		sum += w
	}
	credit := make([]int, len(p.Weights))
	order := make([]int, sum)
	for turn := range order {
		best := 0
		for i, w := range p.Weights {
			if credit[i] += w; credit[i] > credit[best] {
				best = i
			}
		}
		credit[best] -= sum
		order[turn] = best
	}
	return order
}

// Assign divides n connections among the targets: one each, the rest by weight.
func Assign(p *load.Profile, n int) []int {
	order := byWeight(p)
	assigned := make([]int, 0, n)
	for i := range min(n, len(p.Targets)) {
		assigned = append(assigned, i)
	}
	for i := len(p.Targets); i < n; i++ {
		assigned = append(assigned, order[i%len(order)])
	}
	return assigned
}
