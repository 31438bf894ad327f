//go:build !linux

package local

import (
	"errors"
	"fmt"
)

func newWire() (wire, error) {
	return nil, fmt.Errorf("%w: network faults need nftables, which only Linux has", errors.ErrUnsupported)
}
