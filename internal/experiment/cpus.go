package experiment

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// ParseCPUs reads a list of processors in the syntax of taskset, such as "0-3,6".
// The processors are returned in ascending order.
func ParseCPUs(list string) ([]int, error) {
	seen := map[int]bool{}
	for part := range strings.SplitSeq(list, ",") {
		from, to, isRange := strings.Cut(strings.TrimSpace(part), "-")
		if !isRange {
			to = from
		}
		a, err := cpu(from)
		if err != nil {
			return nil, fmt.Errorf("%q is not a list of processors", clip(list))
		}
		b, err := cpu(to)
		if err != nil {
			return nil, fmt.Errorf("%q is not a list of processors", clip(list))
		}
		if a > b || b > maxCPU {
			return nil, fmt.Errorf("%q: processors count up, from 0 to %d", clip(list), maxCPU)
		}
		for i := a; i <= b; i++ {
			seen[i] = true
		}
	}
	return slices.Sorted(maps.Keys(seen)), nil
}

func cpu(digits string) (int, error) {
	n, err := strconv.ParseUint(digits, 10, 31)
	return int(n), err
}
