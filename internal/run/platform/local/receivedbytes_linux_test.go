package local

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/netip"
	"testing"
	"time"

	"github.com/tare-mesh/tare/internal/base/must"
	"github.com/tare-mesh/tare/internal/base/wait"
)

// Bytes of open and of ended connections are counted. A program that ends its connections first may lose the count of a FIN.
func TestReceivedBytes(t *testing.T) {
	for _, address := range []string{"127.0.0.1:0", "[::]:0"} { // the second accepts IPv4 too
		l := must.Get(net.Listen("tcp", address))(t)
		at := netip.AddrPortFrom(localhost, l.Addr().(*net.TCPAddr).AddrPort().Port())
		r := must.Get(newReceivedBytes(at))(t)
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
