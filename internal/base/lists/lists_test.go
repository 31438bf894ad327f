package lists

import (
	"maps"
	"slices"
	"testing"
)

func odd(n int) bool { return n%2 == 1 }

func TestLists(t *testing.T) {
	all := []int{2, 3, 3, 5}
	if got := Map(all, func(n int) float64 { return float64(n) / 2 }); !slices.Equal(got, []float64{1, 1.5, 1.5, 2.5}) {
		t.Errorf("Map: %v", got)
	}
	if got := Where(all, odd); !slices.Equal(got, []int{3, 3, 5}) {
		t.Errorf("Where: %v", got)
	}
	if got, ok := First(all, odd); got != 3 || !ok {
		t.Errorf("First: %v, %v", got, ok)
	}
	if got := Add([]int{5}, all...); !slices.Equal(got, []int{5, 2, 3}) {
		t.Errorf("Add: %v", got)
	}
	if got := Count(all, odd); got != 3 {
		t.Errorf("Count: %d", got)
	}
	if got := Most(all, func(n int) float64 { return 2 - float64(n) }); got != 0 {
		t.Errorf("Most: %v", got)
	}
	if got := Most(all, func(n int) int { return -n * (n - 6) }); got != 9 {
		t.Errorf("Most: %d", got)
	}
	if got := Sum(all, func(n int) int64 { return int64(10 * n) }); got != 130 {
		t.Errorf("Sum: %d", got)
	}
	if got := Set(all, func(n int) int { return n + 1 }); !maps.Equal(got, map[int]bool{3: true, 4: true, 6: true}) {
		t.Errorf("Set: %v", got)
	}
}

// JSON writes nil as null, as it does after a loop that appends nothing.
func TestListsOfNothing(t *testing.T) {
	if Map([]int{}, odd) != nil || Where([]int{2}, odd) != nil {
		t.Error("not nil")
	}
	if got, ok := First([]int{2}, odd); got != 0 || ok {
		t.Errorf("First: %v, %v", got, ok)
	}
}
