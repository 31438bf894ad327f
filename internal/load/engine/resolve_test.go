package engine

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/net/dns/dnsmessage"

	"github.com/tare-mesh/tare/internal/load"
	"github.com/tare-mesh/tare/internal/load/target"
	"github.com/tare-mesh/tare/test/difftest"
	"github.com/tare-mesh/tare/test/must"
)

// nameServer is a DNS server for A records over UDP. It responds with the addresses
// or the failure code of a name, and ignores queries for other names.
func nameServer(t *testing.T, names map[string][]netip.Addr, codes map[string]dnsmessage.RCode, asked *atomic.Int64) target.Lookup {
	t.Helper()
	c := must.Get(net.ListenPacket("udp", "127.0.0.1:0"))(t)
	t.Cleanup(func() { c.Close() })
	go func() {
		b := make([]byte, 1500)
		for {
			n, from, err := c.ReadFrom(b)
			if err != nil {
				return
			}
			var m dnsmessage.Message
			if m.Unpack(b[:n]) != nil || len(m.Questions) != 1 {
				continue
			}
			q := m.Questions[0]
			name := strings.TrimSuffix(q.Name.String(), ".")
			code, failing := codes[name]
			addrs, known := names[name]
			if !failing && !known {
				continue
			}
			if q.Type == dnsmessage.TypeA {
				asked.Add(1)
			}
			m.Response, m.RecursionAvailable, m.RCode, m.Additionals = true, true, code, nil
			for _, a := range addrs {
				if h := (dnsmessage.ResourceHeader{Name: q.Name, Class: q.Class, TTL: 1}); a.Is4() && q.Type == dnsmessage.TypeA {
					m.Answers = append(m.Answers, dnsmessage.Resource{Header: h, Body: &dnsmessage.AResource{A: a.As4()}})
				}
			}
			if answer, err := m.Pack(); err == nil {
				_, _ = c.WriteTo(answer, from)
			}
		}
	}()
	r := net.Resolver{PreferGo: true, Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "udp", c.LocalAddr().String())
	}}
	return r.LookupNetIP
}

// onAddresses starts a server on the same port of each address and returns the port.
func onAddresses(t *testing.T, handle func(net.Conn), ips ...string) (port string) {
	t.Helper()
	for attempt := range 20 {
		port, listeners := "0", []net.Listener(nil)
		for _, ip := range ips {
			l, err := net.Listen("tcp", net.JoinHostPort(ip, port))
			if err != nil {
				break
			}
			listeners = append(listeners, l)
			_, port, _ = net.SplitHostPort(l.Addr().String())
		}
		if len(listeners) < len(ips) {
			for _, l := range listeners {
				l.Close()
			}
			t.Logf("attempt %d: port %s is not free everywhere", attempt, port)
			continue
		}
		for _, l := range listeners {
			t.Cleanup(func() { l.Close() })
			go func() {
				for {
					c, err := l.Accept()
					if err != nil {
						return
					}
					go func() {
						handle(c)
						c.Close()
					}()
				}
			}()
		}
		return port
	}
	t.Fatal("no port is free on all addresses")
	return ""
}

func brieflyAt(url string) load.Profile {
	p := profile(url)
	p.Rate, p.Warmup, p.Tail, p.Measure, p.Timeout, p.Drain = 100, 0, 0, brief, 10*time.Second, 10*time.Second
	return p
}

// TestAddressesAreUsedInTurn checks that the workers use every address of a name equally often.
func TestAddressesAreUsedInTurn(t *testing.T) {
	t.Parallel()
	var asked atomic.Int64
	a, b := netip.MustParseAddr("127.0.0.1"), netip.MustParseAddr("127.0.0.2")
	look := nameServer(t, map[string][]netip.Addr{"two.test": {a, b}}, nil, &asked)
	port := onAddresses(t, replying(helloResponse), a.String(), b.String())
	for _, workers := range []int{1, 2} {
		asked.Store(0)
		p := brieflyAt("http://two.test:" + port)
		p.Workers, p.Connections = workers, 8
		r := must.Get(run(t.Context(), p, nil, look))(t)
		if r.Classes[load.OK] != r.Intended || r.Addresses[a.String()+":"+port] != 4 || r.Addresses[b.String()+":"+port] != 4 {
			t.Errorf("%d workers: %v to %v, %v", workers, r.Classes, r.Addresses, r.ConnectErrors)
		}
		if asked.Load() != 1 {
			t.Errorf("asked %d times, want once before the load", asked.Load())
		}
	}

}

// TestAddressThatDoesNotAnswerIsPassedOver checks that all connections open although one address of the name is dead.
func TestAddressThatDoesNotAnswerIsPassedOver(t *testing.T) {
	t.Parallel()
	look := func(context.Context, string, string) ([]netip.Addr, error) {
		return []netip.Addr{netip.MustParseAddr("127.0.0.3"), netip.MustParseAddr("127.0.0.1")}, nil
	}
	port := onAddresses(t, replying(helloResponse), "127.0.0.1")
	r := must.Get(run(t.Context(), brieflyAt("http://one.test:"+port), nil, look))(t)
	if d := difftest.Of("r.Classes[load.OK]", r.Classes[load.OK], r.Intended, "r.Connected", r.Connected, 8, `r.Addresses["127.0.0.1:"+port]`, r.Addresses["127.0.0.1:"+port], 8, `r.ConnectErrors["connect refused"] == 0`, r.ConnectErrors["connect refused"] == 0, false); d != "" {
		t.Errorf("%s: %v, %d connected, %v, %v", d, r.Classes, r.Connected, r.Addresses, r.ConnectErrors)
	}

}

// A name without an address is an error of Run, since all names are looked up before the load.
func TestNameThatCannotBeResolved(t *testing.T) {
	t.Parallel()
	look := nameServer(t, map[string][]netip.Addr{"none.test": nil},
		map[string]dnsmessage.RCode{"unknown.test": dnsmessage.RCodeNameError, "broken.test": dnsmessage.RCodeServerFailure}, new(atomic.Int64))
	for _, name := range []string{"unknown.test", "none.test", "broken.test"} {
		var dns *net.DNSError
		if _, err := run(t.Context(), brieflyAt("http://"+name), nil, look); !errors.As(err, &dns) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestIPv6(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "[::1]:0")
	if err != nil {
		t.Skip("this machine has no IPv6")
	}
	l.Close()
	port := onAddresses(t, replying(helloResponse), "::1", "127.0.0.1")
	both := func(context.Context, string, string) ([]netip.Addr, error) {
		six, four := netip.MustParseAddr("::1"), netip.MustParseAddr("127.0.0.1")
		return []netip.Addr{six, four, six}, nil
	}
	for _, test := range []struct {
		host      string
		six, four int64
	}{{"[::1]", 8, 0}, {"both.test", 4, 4}} {
		r := must.Get(run(t.Context(), brieflyAt("http://"+test.host+":"+port), nil, both))(t)
		if r.Classes[load.OK] != r.Intended || r.Addresses["[::1]:"+port] != test.six || r.Addresses["127.0.0.1:"+port] != test.four {
			t.Errorf("%+v: %v to %v", test, r.Classes, r.Addresses)
		}

	}
}
