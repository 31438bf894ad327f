//go:build !linux

package local

import (
	"errors"
	"fmt"
	"net/netip"
)

// receivedBytes are the bytes that the connections of an address have received, which only Linux lists.
type receivedBytes struct{}

func newReceivedBytes(netip.AddrPort) (*receivedBytes, error) {
	return nil, fmt.Errorf("%w: only Linux counts the bytes of sockets", errors.ErrUnsupported)
}

func (*receivedBytes) close() error         { return nil }
func (*receivedBytes) read() (int64, error) { return 0, errors.ErrUnsupported }
