package schedule

import (
	"math/rand/v2"
	"slices"
	"testing"
)

// oneByOne is smooth weighted round robin as it is defined: every step compares all.
func oneByOne(weights []int) []int {
	var sum int
	for _, w := range weights {
		sum += w
	}
	credit := make([]int, len(weights))
	order := make([]int, sum)
	for turn := range order {
		best := 0
		for i, w := range weights {
			if credit[i] += w; credit[i] > credit[best] {
				best = i
			}
		}
		credit[best] -= sum
		order[turn] = best
	}
	return order
}

func TestByWeightIsSmoothRoundRobin(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for range 300 {
		weights := make([]int, 1+rng.IntN(12))
		for i := range weights {
			weights[i] = 1 + rng.IntN(1+rng.IntN(9))
		}
		if got, want := byWeight(weights), oneByOne(weights); !slices.Equal(got, want) {
			t.Fatalf("%v: %v, want %v", weights, got, want)
		}
	}
}

// Many targets of few weights.
func BenchmarkByWeight(b *testing.B) {
	weights := make([]int, 20_000)
	for i := range weights {
		weights[i] = 1 + i%3
	}
	for _, test := range []struct {
		name string
		of   func([]int) []int
	}{{"groups", byWeight}, {"all", oneByOne}} {
		b.Run(test.name, func(b *testing.B) {
			for b.Loop() {
				test.of(weights)
			}
		})
	}
}
