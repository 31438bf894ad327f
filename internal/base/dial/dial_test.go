package dial

import (
	"net"
	"net/netip"
	"testing"

	"github.com/tare-mesh/tare/test/must"
)

func TestFrom(t *testing.T) {
	l := must.Get(net.Listen("tcp4", "127.0.0.1:0"))(t)
	defer l.Close()
	for _, want := range []string{"127.0.0.1", "127.9.8.7", ""} {
		var source netip.Addr
		if want != "" {
			source = netip.MustParseAddr(want)
		}
		for range 2 { // each gets a new port
			conn, err := From(source)(t.Context(), "tcp", l.Addr().String())
			if err != nil {
				if want == "127.9.8.7" {
					t.Skipf("this system has only 127.0.0.1: %v", err)
				}
				t.Fatal(err)
			}
			defer conn.Close()
			got := conn.LocalAddr().(*net.TCPAddr)
			if want != "" && got.IP.String() != want || got.Port == 0 {
				t.Errorf("from %q: the connection begins at %v", want, got)
			}
		}
	}
}

// Addresses outside loopback are not reachable from loopback.
func TestElsewhere(t *testing.T) {
	l, err := net.Listen("tcp6", "[::1]:0")
	if err != nil {
		t.Skip("no IPv6 here")
	}
	defer l.Close()
	conn := must.Get(From(netip.MustParseAddr("127.0.0.1"))(t.Context(), "tcp", l.Addr().String()))(t)
	conn.Close()
}
