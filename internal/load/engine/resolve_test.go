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

	"github.com/tare-mesh/tare/internal/base/difftest"
	"github.com/tare-mesh/tare/internal/base/must"
	"github.com/tare-mesh/tare/internal/load"
	"github.com/tare-mesh/tare/internal/load/target"
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
		for _, resolve := range []string{load.ResolveOnce, load.ResolveConnection} {
			asked.Store(0)
			p := brieflyAt("http://two.test:" + port)
			p.Resolve, p.Workers, p.Connections = resolve, workers, 8
			r := must.Get(run(t.Context(), p, nil, look))(t)
			if r.Classes[load.OK] != r.Intended || r.Addresses[a.String()+":"+port] != 4 || r.Addresses[b.String()+":"+port] != 4 {
				t.Errorf("%d workers, %s: %v to %v, %v", workers, resolve, r.Classes, r.Addresses, r.ConnectErrors)
			}
			// Concurrent look-ups share one query.
			if want := map[string]int64{load.ResolveConnection: 8}[resolve]; asked.Load() < 1 || r.ResolveMS.Count != want {
				t.Errorf("%s: asked %d times; %d look-ups, want %d", resolve, asked.Load(), r.ResolveMS.Count, want)
			}
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

// TestNameThatCannotBeResolved checks that an unresolvable name has its own error
// count. With one look-up before the load it is an error of Run.
func TestNameThatCannotBeResolved(t *testing.T) {
	t.Parallel()
	var asked atomic.Int64
	look := nameServer(t, map[string][]netip.Addr{"none.test": nil},
		map[string]dnsmessage.RCode{"unknown.test": dnsmessage.RCodeNameError, "broken.test": dnsmessage.RCodeServerFailure}, &asked)
	for _, test := range []struct {
		name, kind string
		class      load.Class
	}{
		{"unknown.test", "no such host", load.Conn},
		{"none.test", "no such host", load.Conn},
		{"broken.test", "name look-up failed", load.Conn},
		{"silent.test", "timeout before the name was resolved", load.Timeout},
	} {
		for _, rate := range []float64{30, 0} {
			p := brieflyAt("http://" + test.name)
			p.Resolve, p.Rate, p.Connections, p.Timeout = load.ResolveConnection, rate, 2, 5*time.Second
			p.Requests, p.Measure = 3, 20*time.Second // however busy the machine is
			if test.class == load.Timeout {
				p.Timeout = 100 * time.Millisecond
			}
			r := must.Get(run(t.Context(), p, nil, look))(t)
			// Requests that never found a free place are timeouts of another kind.
			if all := r.Errors[test.kind] + r.Errors["timeout before a connection was free"]; r.Requests == 0 {
				t.Errorf("%s, rate %v: %v, %v of %d, %v", test.name, rate, r.Classes, r.Errors, r.Requests, r.ConnectErrors)
			} else if d := difftest.Wrong("all != r.Requests", all != r.Requests, "r.Errors[test.kind] == 0", r.Errors[test.kind] == 0, "r.Classes[test.class] < r.Errors[test.kind]", r.Classes[test.class] < r.Errors[test.kind], "r.ConnectErrors[test.kind] == 0", r.ConnectErrors[test.kind] == 0); d != "" {
				t.Errorf("%s: %s, rate %v: %v, %v of %d, %v", d, test.name, rate, r.Classes, r.Errors, r.Requests, r.ConnectErrors)
			}
		}

		if test.class == load.Timeout {
			continue
		}
		var dns *net.DNSError
		if _, err := run(t.Context(), brieflyAt("http://"+test.name), nil, look); !errors.As(err, &dns) {
			t.Errorf("%s once: %v", test.name, err)
		}
	}
}

// TestLookUpEndsWithTheLoad checks that a stopped load does not wait for a name
// server that does not respond.
func TestLookUpEndsWithTheLoad(t *testing.T) {
	t.Parallel()
	p := brieflyAt("http://silent.test")
	p.Resolve, p.Timeout, p.Drain = load.ResolveConnection, time.Minute, 100*time.Millisecond
	ctx, cancel := context.WithCancel(t.Context())
	began := time.Now()
	_, err := run(ctx, p, nil, func(ctx context.Context, _, _ string) ([]netip.Addr, error) {
		cancel()
		<-ctx.Done()
		return nil, ctx.Err()
	})
	if took := time.Since(began); err != nil || took > 20*time.Second {
		t.Errorf("%v after %v", err, took)
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
	both := func(_ context.Context, network, _ string) ([]netip.Addr, error) {
		six, four := netip.MustParseAddr("::1"), netip.MustParseAddr("127.0.0.1")
		return map[string][]netip.Addr{"ip": {six, four, six}, "ip4": {four}, "ip6": {six}}[network], nil
	}
	for _, test := range []struct {
		host, version string
		six, four     int64
	}{{"[::1]", "", 8, 0}, {"both.test", "", 4, 4}, {"both.test", "6", 8, 0}, {"both.test", "4", 0, 8}} {
		p := brieflyAt("http://" + test.host + ":" + port)
		p.IPVersion = test.version
		r := must.Get(run(t.Context(), p, nil, both))(t)
		if r.Classes[load.OK] != r.Intended || r.Addresses["[::1]:"+port] != test.six || r.Addresses["127.0.0.1:"+port] != test.four {
			t.Errorf("%+v: %v to %v", test, r.Classes, r.Addresses)
		}

	}
}
