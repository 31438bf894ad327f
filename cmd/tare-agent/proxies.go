package main

import (
	"github.com/spf13/cobra"

	"github.com/tare-mesh/tare/internal/inside/simulated"
)

func newProxiesCommand() *cobra.Command {
	var o simulated.Options
	cmd := tokenServer("proxies", "Simulate proxies: xDS clients that receive and acknowledge", `proxies opens a stream of delta xDS to a control plane for each of many simulated
sidecars. Each subscribes to clusters, endpoints, listeners and routes, acknowledges
every message, and keeps when a change of a background service reached it. A client
with the token reads that.`,
		"127.0.0.1:9098", func(token string) (server, error) { return simulated.New(token, o) })
	f := cmd.Flags()
	f.StringVar(&o.Control, "control", "", "`address` of the control plane")
	f.IntVar(&o.Count, "count", 1, "`number` of proxies")
	f.StringVar(&o.ID, "node", "proxy-{number}", "`id` of each proxy's node; {number} and {ip} are replaced")
	f.StringVar(&o.Metadata, "metadata", "", "metadata of each node, as `JSON`")
	f.StringVar(&o.CA, "ca", "", "`file` with the CA of the control plane, for TLS")
	f.StringVar(&o.ServerName, "server-name", "", "`name` in the control plane's certificate")
	f.StringVar(&o.Bearer, "bearer", "", "`file` with a token for the control plane")
	f.IntVar(&o.Mute, "mute", 0, "make a mistake: the proxy with this `number` never acknowledges")
	return cmd
}
