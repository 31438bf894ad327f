package plan

import (
	"math/rand/v2"
	"slices"
)

// balancedStream keeps the draws of designs apart from the draws of blocks.
const balancedStream = 1 << 40

// balancedOrder is the order of n treatments in a block, from 1. Blocks are the rows of
// Williams designs, each with its treatments and rows in random order. An odd number of
// treatments has both halves of its rows apart, so that n blocks balance the positions.
func balancedOrder(n int, seed uint64, block int) []int {
	rows := designRows(n)
	source := rand.NewPCG(seed, balancedStream+uint64((block-1)/rows))
	names := numbers(n)
	shuffle(names, source)
	halves := [][]int{numbers(n), numbers(rows - n)}
	order := make([]int, 0, rows)
	first := int(below(source, 2))
	for i := range halves {
		half := (i + first) % len(halves)
		shuffle(halves[half], source)
		for _, row := range halves[half] {
			order = append(order, row+half*n)
		}
	}
	out := williamsRow(n, order[(block-1)%rows])
	for i, v := range out {
		out[i] = names[v]
	}
	return out
}

// williamsRow is a row, from 0, of a Williams design of n treatments. Each treatment is in
// each position equally often, and directly after each other treatment equally often
// (Williams, Australian Journal of Scientific Research 1949). An even n has n rows. An odd
// n has 2n: n rows, a Latin square by themselves, and the same rows backwards.
func williamsRow(n, row int) []int {
	out := make([]int, n)
	for i := range out { // 0, 1, n-1, 2, n-2, … and its shifts
		v := n - i/2
		if i%2 == 1 {
			v = (i + 1) / 2
		}
		out[i] = (v + row) % n
	}
	if row >= n {
		slices.Reverse(out)
	}
	return out
}

// designRows is the number of rows of a Williams design.
func designRows(n int) int {
	if n%2 == 1 && n > 1 {
		return 2 * n
	}
	return n
}

// numbers are 0 to n-1.
func numbers(n int) []int {
	all := make([]int, n)
	for i := range all {
		all[i] = i
	}
	return all
}
