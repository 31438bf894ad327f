package report

import (
	"strings"
	"testing"

	"github.com/tare-mesh/tare/internal/base/check"
	"github.com/tare-mesh/tare/internal/result"
	"github.com/tare-mesh/tare/internal/result/balance"
	"github.com/tare-mesh/tare/test/answertest"
)

// The report has the proof of proxies without counters, and no line about proxies with counters.
func TestVerified(t *testing.T) {
	flow := func(service string, at balance.Point, unit balance.Unit) balance.Flow {
		return balance.Flow{Place: balance.Place{Service: service, Point: at, Unit: unit}}
	}
	served, counted := flow("echo", balance.Served, balance.Requests), flow("echo", balance.InReceived, balance.Connections)
	for name, c := range map[string]struct {
		flows []balance.Flow
		want  string
	}{
		"counters": {[]balance.Flow{served, counted}, ""},
		"served": {[]balance.Flow{served},
			"Traffic through envoy, envoy-plaintext, envoy-tcp is verified by random answers before the load and the kernel's sockets during it: no counters of the proxy."},
		"own program by bytes": {[]balance.Flow{{Place: served.Place, Bytes: 61}},
			"is verified by random answers before the load, the kernel's sockets during it and the bytes that your program's sockets carried: no counters of the proxy."},
		"own program": {nil, "Your program has none either"},
	} {
		s := answertest.Quickstart()
		s.Change = func(r *result.Record) {
			if r.Factors["mesh"] != "none" {
				r.Checks = append(r.Checks, check.Check{Name: "nonce through the sidecars", OK: true}, check.Check{Name: "connections to the application of echo", OK: true})
				r.Balance = &balance.Balance{Flows: c.flows}
			}
		}
		lines := strings.Join(VerifiedLines(reportOf(t, s)), "\n")
		if c.want == "" && lines != "" || !strings.Contains(lines, c.want) {
			t.Errorf("%s: %q, want %q", name, lines, c.want)
		}
	}
}
