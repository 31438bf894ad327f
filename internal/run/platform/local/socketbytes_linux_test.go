package local

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/netip"
	"testing"
	"time"

	"github.com/tare-mesh/tare/internal/base/wait"
	"github.com/tare-mesh/tare/test/must"
)

// Bytes of open and of ended connections are counted. A program that ends its connections first may lose the count of a FIN.
func TestSocketBytes(t *testing.T) {
	for _, address := range []string{"127.0.0.1:0", "[::]:0"} { // the second accepts IPv4 too
		l := must.Get(net.Listen("tcp", address))(t)
		at := netip.AddrPortFrom(localhost, l.Addr().(*net.TCPAddr).AddrPort().Port())
		r := must.Get(newSocketBytes(at, false))(t)
		reads := func(want int64) {
			t.Helper()
			must.OK(t, wait.Within(t.Context(), 5*time.Second, 5*time.Millisecond, func(context.Context) error {
				if n, err := r.read(); err != nil || n > want || n < want-1 {
					return fmt.Errorf("%s: %d bytes, want %d: %v", address, n, want, err)
				}
				return nil
			}))
		}
		for i := range 2 {
			client := must.Get(net.Dial("tcp", at.String()))(t)
			server := must.Get(l.Accept())(t)
			must.Get(client.Write(make([]byte, 1234)))(t)
			must.Get(io.ReadFull(server, make([]byte, 1234)))(t)
			reads(int64(i+1) * 1234)
			ends := []net.Conn{client, server}
			must.OK(t, ends[i].Close())
			reads(int64(i+1) * 1234)
			must.OK(t, ends[1-i].Close())
			reads(int64(i+1) * 1234)
		}
		must.OK(t, l.Close())
		must.OK(t, r.close())
	}
}

// The end of a connection is announced after it is listed last: its bytes are missing in no reading between.
func TestLateEndOfAConnection(t *testing.T) {
	r := must.Get(newSocketBytes(netip.AddrPortFrom(localhost, 1), false))(t)
	r.open = map[uint64]bool{1: true}
	announced := time.AfterFunc(50*time.Millisecond, func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		delete(r.open, 1)
		r.ended = 1234
	})
	defer announced.Stop()
	if n := must.Get(r.read())(t); n != 1234 {
		t.Errorf("%d bytes, want 1234", n)
	}
	r.open = map[uint64]bool{2: true} // never announced
	for range 2 {
		if n := must.Get(r.read())(t); n != 1234 {
			t.Errorf("%d bytes, want 1234", n)
		}
	}
	must.OK(t, r.close())
}
