package cli

import (
	"slices"
	"testing"
)

// Processes on one machine are pinned to processors of their own.
func TestCPUsOfParts(t *testing.T) {
	for _, test := range []struct {
		cpus    []int
		earlier int
		want    []int
	}{
		{nil, 3, nil}, {[]int{4, 5, 6}, 0, []int{4, 5, 6}}, {[]int{4, 5, 6}, 2, []int{6, 4, 5}}, {[]int{4, 5, 6}, 4, []int{5, 6, 4}},
	} {
		if got := cpusOf(test.cpus, test.earlier); !slices.Equal(got, test.want) {
			t.Errorf("%v after %d workers: %v", test.cpus, test.earlier, got)
		}
	}
}
