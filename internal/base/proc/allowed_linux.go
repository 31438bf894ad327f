package proc

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// AllowedCPUs lists the processors that this process may use, in ascending order.
func AllowedCPUs() ([]int, error) {
	var set unix.CPUSet
	if err := unix.SchedGetaffinity(0, &set); err != nil {
		return nil, fmt.Errorf("list the allowed processors: %w", err)
	}
	var cpus []int
	for cpu := range 8 * len(set) * 8 { // words of at most 64 bits
		if set.IsSet(cpu) {
			cpus = append(cpus, cpu)
		}
	}
	return cpus, nil
}
