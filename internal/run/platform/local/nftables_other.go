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
	return nil, fmt.Errorf("%w: packets between processes can be touched with nftables alone, which Linux has", errors.ErrUnsupported)
}
