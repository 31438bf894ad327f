//go:build !linux

package proc

import (
	"errors"
	"fmt"
)

// AllowedCPUs lists the processors that this process may use, in ascending order.
func AllowedCPUs() ([]int, error) {
	return nil, fmt.Errorf("list the allowed processors: %w", errors.ErrUnsupported)
}
