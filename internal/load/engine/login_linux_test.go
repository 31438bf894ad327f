package engine

import (
	"bufio"
	"crypto/rand"
	"fmt"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/tare-mesh/tare/internal/load"
)

// A server with a login, whose answers differ: each connection begins with the opening, in the clear and over TLS. Requests fail on
// connections whose opening has another answer.
func TestOpening(t *testing.T) {
	t.Parallel()
	login := func(welcome string) func(net.Conn) {
		return func(c net.Conn) {
			in := bufio.NewReader(c)
			if line, err := in.ReadString('\n'); err != nil || line != "HELLO\n" {
				return
			}
			if _, err := fmt.Fprintf(c, "%s %s\n.READY", welcome, rand.Text()); err != nil {
				return
			}
			for {
				if line, err := in.ReadString('\n'); err != nil || line != "PING\n" {
					return
				}
				for _, part := range []string{"+PONG ", rand.Text(), "\n.E", "ND"} {
					if _, err := io.WriteString(c, part); err != nil {
						return
					}
				}
			}
		}
	}
	a := serverAuthority(t)
	for _, c := range []struct {
		url, welcome string
		good         bool
	}{
		{tcpTarget(t, login("+HI")), "+HI", true},
		{strings.Replace(rawServer(t, over(a.config(t, "server"), login("+HI"))), "http://", "tls://", 1), "+HI over TLS", true},
		{tcpTarget(t, login("-GO")), "-GO", false},
	} {
		for _, rate := range []float64{50, 0} {
			p := atRate(profile(c.url), rate, 10)
			if strings.HasPrefix(c.url, "tls:") {
				p = a.trusting(p)
			}
			p.Protocol, p.Body, p.Answer, p.Until, p.Warmup, p.Tail = load.ProtocolTCP, []byte("PING\n"), []byte("+PONG "), []byte("\n.END"), 0, 0
			p.Opening = &load.Exchange{Send: []byte("HELLO\n"), Expect: []byte("+HI "), Until: []byte("\n.READY")}
			p.Connections, p.Timeout, p.Drain = 2, 2*time.Second, 10*time.Second
			r, err := Run(t.Context(), p, nil)
			if c.good && (err != nil || r.Requests == 0 || r.Classes[load.OK] != r.Requests || r.Reconnects > 0) {
				t.Errorf("%s, rate %v: %v, %v, %v of %d, %d reconnects", c.welcome, rate, err, r.Classes, r.Errors, r.Requests, r.Reconnects)
			}
			if !c.good && r.Classes[load.OK] > 0 {
				t.Errorf("%s, rate %v: %v succeeded", c.welcome, rate, r.Classes)
			}
		}
	}
}
