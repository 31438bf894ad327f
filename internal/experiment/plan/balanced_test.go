package plan_test

import (
	"fmt"
	"testing"

	"github.com/tare-mesh/tare/internal/experiment/plan"
)

// A full design has each treatment in each position, and directly after each other
// treatment, equally often. A random order has neither.
func TestBalancedOrder(t *testing.T) {
	const meshes = "factors: {mesh: [a, b, c, d, e, f, g]}\n"
	for n := 2; n <= 7; n++ {
		rows := n
		if n%2 == 1 {
			rows = 2 * n
		}
		file := fmt.Sprintf("%sblocks: %d\n", meshes[:len("factors: {mesh: [a")+3*(n-1)]+"]}\n", 3*rows)
		orders := map[string]bool{}
		for seed := range 20 {
			p := expand(t, file+fmt.Sprintf("order: balanced\nseed: %d", seed))
			place, after := places(p, n)
			if p.Order != "balanced" || len(place) != n*n || len(after) != n*(n-1) {
				t.Fatalf("%d treatments: order %q, %d places, %d followers", n, p.Order, len(place), len(after))
			}
			for k, v := range place {
				if v != 3*rows/n {
					t.Errorf("%d treatments, seed %d: %s %d times, want %d", n, seed, k, v, 3*rows/n)
				}
			}
			for k, v := range after {
				if v != 3*rows/n {
					t.Errorf("%d treatments, seed %d: %s %d times, want %d", n, seed, k, v, 3*rows/n)
				}
			}
			orders[order(p)] = true
		}
		if n > 2 && len(orders) < 18 {
			t.Errorf("%d treatments: 20 seeds give %d orders", n, len(orders))
		}
	}
}

// n blocks of an odd number of treatments balance the positions already, and a longer
// run begins with the blocks of a shorter one.
func TestBalancedOrderOfFewBlocks(t *testing.T) {
	const file = "factors: {mesh: [a, b, c, d, e]}\norder: balanced\nseed: 9\nblocks: "
	p := expand(t, file+"5")
	place, _ := places(p, 5)
	for k, v := range place {
		if v != 1 {
			t.Errorf("%s %d times", k, v)
		}
	}
	long := expand(t, file+"25")
	for i, tr := range p.Trials {
		if long.Trials[i] != tr {
			t.Errorf("trial %d is %+v of 5 blocks and %+v of 25", i+1, tr, long.Trials[i])
		}
	}
}

func places(p *plan.Plan, n int) (place, after map[string]int) {
	place, after = map[string]int{}, map[string]int{}
	for i, tr := range p.Trials {
		place[fmt.Sprint(tr.Treatment, " in place ", i%n)]++
		if i%n > 0 {
			after[fmt.Sprint(tr.Treatment, " after ", p.Trials[i-1].Treatment)]++
		}
	}
	return place, after
}
