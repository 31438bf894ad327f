package main

import (
	"context"
	"fmt"
	"net"

	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"

	"github.com/tare-mesh/tare/internal/base/routine"
	"github.com/tare-mesh/tare/internal/inside/control"
	"github.com/tare-mesh/tare/internal/inside/nodeagent"
	"github.com/tare-mesh/tare/internal/inside/service"
	"github.com/tare-mesh/tare/internal/inside/simulated"
	"github.com/tare-mesh/tare/internal/load/worker"
)

// server answers the requests of tare.
type server interface {
	Serve(ctx context.Context, l net.Listener) error
}

// tokenServer returns a command that listens on the loopback address, or another one, for clients with the token of a file.
func tokenServer(use, short, long, address string, make func(token string) (server, error)) *cobra.Command {
	var listen, tokenFile string
	cmd := &cobra.Command{
		Use: use, Short: short, Long: long, Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if tokenFile == "" {
				return fmt.Errorf("%s: --token-file is missing", use)
			}
			token, err := service.ReadToken(tokenFile)
			if err != nil {
				return err
			}
			s, err := make(token)
			if err != nil {
				return err
			}
			l, err := service.Listen(listen)
			if err != nil {
				return err
			}
			defer l.Close()
			fmt.Fprintf(cmd.OutOrStdout(), "tare-agent: %s listens on %s\n", use, l.Addr())
			return s.Serve(cmd.Context(), l)
		},
	}
	cmd.Flags().StringVar(&listen, "listen", address, "`address` to listen on")
	cmd.Flags().StringVar(&tokenFile, "token-file", "", "`file` with the token that every request needs")
	return cmd
}

func newControlCommand() *cobra.Command {
	var dir, ads string
	var o control.Options
	cmd := tokenServer("control", "Configure Envoys by files: a control plane with a known delay", `control holds the routes and endpoints of services, for a client with the token, and
writes each change to files that Envoys watch. A delay before each change is a standard
weight for measurements of changes.`,
		"127.0.0.1:9097", func(token string) (server, error) {
			p, err := control.New(token, dir, o)
			return &adsServer{p, ads}, err
		})
	f := cmd.Flags()
	f.StringVar(&dir, "dir", ".", "`directory` of the files")
	f.StringVar(&ads, "ads", "", "`address` of delta ADS, which has the background services alone; empty for none")
	f.DurationVar(&o.Delay, "delay", 0, "`time` from a request to its change")
	f.DurationVar(&o.Flap, "flap", 0, "make a mistake: the old route comes back after this `time`, and for as long")
	f.DurationVar(&o.Late, "late", 0, "make a mistake: a second file of each route changes this `time` later")
	f.IntVar(&o.Routes, "routes", 0, "`number` of further routes of each service, which no request matches")
	return cmd
}

// adsServer is a control plane with an address for ADS.
type adsServer struct {
	*control.Plane
	address string
}

// Serve serves requests of tare on l, and streams of proxies.
func (s *adsServer) Serve(ctx context.Context, l net.Listener) error {
	if s.address == "" {
		return s.Plane.Serve(ctx, l)
	}
	streams, err := service.Listen(s.address)
	if err != nil {
		return err
	}
	group, ctx := errgroup.WithContext(ctx)
	group.Go(routine.Guarded(func() error { return s.Plane.Serve(ctx, l) }))
	group.Go(routine.Guarded(func() error { return s.ServeADS(ctx, streams) }))
	return group.Wait()
}

func newNodeCommand() *cobra.Command {
	var root string
	cmd := tokenServer("node", "Read the control groups of a node's containers", `node reads CPU time and memory of containers from the control groups of its node, for a
client with the token: at once, or at planned instants of its own clock. It writes
nothing and starts nothing. It listens on the loopback address: tare reaches it by a
forwarded port.`,
		"127.0.0.1:9096", func(token string) (server, error) { return nodeagent.NewServer(token, root) })
	cmd.Flags().StringVar(&root, "cgroups", "/sys/fs/cgroup", "`directory` of the control-group file system")
	return cmd
}

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

func newWorkerCommand() *cobra.Command {
	var dir string
	cmd := tokenServer("worker", "Run commands for tare in a pod of load workers", `worker runs one command at a time for a client with the token. The client reads
the command's output by offset, and its files. worker listens on the loopback
address: tare reaches it by a forwarded port.`,
		"127.0.0.1:9095", func(token string) (server, error) { return worker.NewServer(token, dir) })
	cmd.Flags().StringVar(&dir, "dir", "/tmp", "`directory` for the commands to work in")
	return cmd
}
