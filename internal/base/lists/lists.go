// Package lists has loops over slices.
package lists

import "slices"

// Map returns of(x) for each element, nil for no elements.
func Map[T, U any](all []T, of func(T) U) (out []U) {
	for _, x := range all {
		out = append(out, of(x))
	}
	return out
}

// Where returns the elements that satisfy is, nil if none does.
func Where[T any](all []T, is func(T) bool) (out []T) {
	for _, x := range all {
		if is(x) {
			out = append(out, x)
		}
	}
	return out
}

// First returns the first element that satisfies is. It is not ok if none does.
func First[T any](all []T, is func(T) bool) (first T, ok bool) {
	for _, x := range all {
		if is(x) {
			return x, true
		}
	}
	return first, false
}

// Add appends each of more that is not among the elements yet.
func Add[T comparable](all []T, more ...T) []T {
	for _, x := range more {
		if !slices.Contains(all, x) {
			all = append(all, x)
		}
	}
	return all
}

// Count returns the number of elements that satisfy is.
func Count[T any](all []T, is func(T) bool) (n int) {
	for _, x := range all {
		if is(x) {
			n++
		}
	}
	return n
}

type number interface{ ~int | ~int64 | ~float64 }

// Most returns the largest of(x), at least zero.
func Most[T any, N number](all []T, of func(T) N) (most N) {
	for _, x := range all {
		most = max(most, of(x))
	}
	return most
}

// Sum returns the sum of of(x), added in the order of the elements.
func Sum[T any, N number](all []T, of func(T) N) (sum N) {
	for _, x := range all {
		sum += of(x)
	}
	return sum
}

// Set returns the set of of(x).
func Set[T any, K comparable](all []T, of func(T) K) map[K]bool {
	set := map[K]bool{}
	for _, x := range all {
		set[of(x)] = true
	}
	return set
}
