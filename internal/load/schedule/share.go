package schedule

import (
	"slices"

	"github.com/tare-mesh/tare/internal/load"
)

// Share is part i of n of a whole that is divided evenly. The first parts are the larger ones.
func Share(whole, n, i int) int {
	s := whole / n
	if i < whole%n {
		s++
	}
	return s
}

// Rotation returns the order in which targets are visited, see [byWeight].
func Rotation(p *load.Profile) []int { return byWeight(Weights(p)) }

// Weights returns the weight of each target, 1 for each if the profile has none.
func Weights(p *load.Profile) []int {
	if len(p.Weights) > 0 {
		return p.Weights
	}
	return slices.Repeat([]int{1}, len(p.Targets))
}

// Assign divides n connections by weights: one each, the rest by weight.
func Assign(weights []int, n int) []int {
	order := byWeight(weights)
	assigned := make([]int, 0, n)
	for i := range min(n, len(weights)) {
		assigned = append(assigned, i)
	}
	for i := len(weights); i < n; i++ {
		assigned = append(assigned, order[i%len(order)])
	}
	return assigned
}

// byWeight is smooth weighted round robin: each of several gains its weight every step, and
// the one with the highest value is visited and loses the sum of the weights. Targets of one weight
// take turns, so that a step compares one of each weight.
func byWeight(weights []int) []int {
	var sum int
	for _, w := range weights {
		sum += w
	}
	if sum == len(weights) { // all are 1
		order := make([]int, len(weights))
		for i := range order {
			order[i] = i
		}
		return order
	}
	type group struct {
		weight, credit int   // of the member that is next
		members        []int // in turn
		next           int
	}
	var groups []*group
	of := map[int]*group{}
	for i, w := range weights {
		if of[w] == nil {
			of[w] = &group{weight: w}
			groups = append(groups, of[w])
		}
		of[w].members = append(of[w].members, i)
	}
	order := make([]int, sum)
	for turn := range order {
		var best *group
		for _, g := range groups {
			g.credit += g.weight
			if best == nil || g.credit > best.credit || g.credit == best.credit && g.members[g.next] < best.members[best.next] {
				best = g
			}
		}
		order[turn] = best.members[best.next]
		if best.next++; best.next == len(best.members) {
			best.next = 0
			best.credit -= sum // all of them have lost it
		}
	}
	return order
}
