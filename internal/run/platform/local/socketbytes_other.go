//go:build !linux

package local

import (
	"errors"
	"fmt"
	"net/netip"
)

// socketBytes are the bytes of the connections of an address, which only Linux lists.
type socketBytes struct{}

func newSocketBytes(netip.AddrPort, bool) (*socketBytes, error) {
	return nil, fmt.Errorf("%w: only Linux counts the bytes of sockets", errors.ErrUnsupported)
}

func (*socketBytes) close() error         { return nil }
func (*socketBytes) read() (int64, error) { return 0, errors.ErrUnsupported }
