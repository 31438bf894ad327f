//go:build !linux

package local

import (
	"errors"
	"fmt"
	"net/netip"
)

type connection struct{ from, to netip.AddrPort }

func established() ([]connection, error) { return nil, errors.ErrUnsupported }

func newWire() (wire, error) {
	return nil, fmt.Errorf("%w: network faults need nftables, which only Linux has", errors.ErrUnsupported)
}
