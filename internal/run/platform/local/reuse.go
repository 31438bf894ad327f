package local

import (
	"context"
	"fmt"
	"net/netip"

	"github.com/tare-mesh/tare/internal/base/check"
	"github.com/tare-mesh/tare/internal/experiment/app"
	loads "github.com/tare-mesh/tare/internal/load"
	"github.com/tare-mesh/tare/internal/load/target"
)

// reuseRequests are sent one after another on one connection.
const reuseRequests = 20

// reuse counts the connections that a gateway opens to the application for requests on one connection. A gateway without keep-alive
// opens one for each, which may cost more than all else that it does.
func (v *verifier) reuse(ctx context.Context, p loads.Profile) []check.Check {
	entry := v.layout.spec.Entry()
	pods := v.layout.pods[entry.Name]
	if carried := pods[0].carried(); !v.layout.spec.Mesh.AtGateway() || carried != app.HTTP1 && carried != "" {
		return nil
	}
	targets, err := requestsOfEngine(ctx, p)
	if err != nil || len(targets) == 0 {
		return nil // requests that vary are not repeated
	}
	opened, err := opens(ctx, targets[0], pods)
	if err != nil {
		return nil
	}
	c := check.Check{Name: "kept connections to the application of " + entry.Name, OK: true,
		Detail: fmt.Sprintf("%.2g connections to the application a request: %d for %d requests on one connection", float64(opened)/reuseRequests, opened, reuseRequests)}
	if 2*opened < reuseRequests {
		return []check.Check{c}
	}
	direct := targets[0]
	direct.Addrs = []netip.AddrPort{pods[0].app}
	if n, err := opens(ctx, direct, pods); err != nil || 2*n >= reuseRequests {
		c.Detail += "; the application ends its connections itself"
		return []check.Check{c}
	}
	c.Caution = fmt.Sprintf("connections that the gateway opens to the application: %.2g a request; it keeps none open, and this is why it costs more", float64(opened)/reuseRequests)
	c.Hint = "switch on keep-alive to the upstream (nginx: keepalive in upstream, proxy_http_version 1.1, an empty header Connection)"
	return []check.Check{c}
}

// opens sends requests on one connection, and counts the new connections to pods.
func opens(ctx context.Context, t target.Target, pods []*pod) (int, error) {
	before, err := callersOf(pods)
	if err != nil {
		return 0, err
	}
	client := &rawClient{}
	defer client.close()
	for range reuseRequests {
		if err := client.send(ctx, t); err != nil {
			return 0, err
		}
	}
	after, err := callersOf(pods)
	n := 0
	for at := range after {
		if !before[at] {
			n++
		}
	}
	return n, err
}

// callersOf are the other ends of the connections to the applications of pods, of ended ones too while the kernel remembers them.
func callersOf(pods []*pod) (map[netip.AddrPort]bool, error) {
	ends, err := sockets(tcpEstablished, tcpFinWait1, tcpFinWait2, tcpTimeWait, tcpCloseWait, tcpLastAck, tcpClosing)
	all := map[netip.AddrPort]bool{}
	for _, c := range ends {
		for _, p := range pods {
			switch p.app {
			case c.to:
				all[c.from] = true
			case c.from:
				all[c.to] = true
			}
		}
	}
	return all, err
}
