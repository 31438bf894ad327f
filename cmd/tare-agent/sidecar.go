package main

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"slices"
	"sync/atomic"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"

	"github.com/tare-mesh/tare/internal/base/httpserver"
	"github.com/tare-mesh/tare/internal/experiment/app"
	"github.com/tare-mesh/tare/internal/inside/service"
	"github.com/tare-mesh/tare/internal/study/sidecar"
	"github.com/tare-mesh/tare/internal/study/sidecar/adder"
)

func newSidecarCommand() *cobra.Command {
	var w adder.Ways
	cmd := &cobra.Command{
		Use:   sidecar.SidecarCommand,
		Short: "The sidecar of the study to-sidecar-or-not: one function by REST and gRPC, over TCP and Unix sockets",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			var listeners [2][]net.Listener
			for i, addresses := range [][]string{{w.REST, socket(w.RESTSocket)}, {w.GRPC, socket(w.GRPCSocket)}} {
				for _, address := range slices.DeleteFunc(addresses, func(a string) bool { return a == "" }) {
					l, err := service.Listen(address)
					if err != nil {
						return err
					}
					defer l.Close()
					listeners[i] = append(listeners[i], l)
					fmt.Fprintf(cmd.OutOrStdout(), "tare-agent: sidecar answers %s on %s\n", [...]string{"REST", "gRPC"}[i], l.Addr())
				}
			}
			return new(adder.Sidecar).Serve(cmd.Context(), listeners[0], listeners[1])
		},
	}
	waysFlags(cmd, &w)
	return cmd
}

func socket(path string) string {
	if path == "" {
		return ""
	}
	return "unix:" + path
}

func newAdderCommand() *cobra.Command {
	var w adder.Ways
	var listen, admin, tokenFile string
	var size app.Size
	cmd := &cobra.Command{
		Use:   sidecar.ServerCommand,
		Short: "The server of the study to-sidecar-or-not: one function, with another transport on each route",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			s, err := adder.NewServer(w, int64(size))
			if err != nil {
				return err
			}
			token := ""
			if tokenFile != "" {
				if token, err = service.ReadToken(tokenFile); err != nil {
					return err
				}
			}
			return serveAll(cmd.Context(), cmd.OutOrStdout(), "adder", []port{
				{listen, handled(s), "answers on %s"}, {admin, handled(s.Admin(token)), "has its metrics on " + metricsURL}}, new(atomic.Bool))
		},
	}
	waysFlags(cmd, &w)
	f := cmd.Flags()
	f.StringVar(&listen, "listen", "127.0.0.1:8080", "`address` to listen on: HOST:PORT, or fd:3 for an inherited socket")
	f.StringVar(&admin, "admin", "", "`address` of /metrics, /stats and /readyz (default: none)")
	f.StringVar(&tokenFile, "token-file", "", "`file` with the token for /probe, readable only by its owner")
	f.Var(scalar{&size, "size"}, "response-size", "length of the response body, at least the length of the sum")
	return cmd
}

// waysFlags adds the flags for the sidecar's addresses of the function.
func waysFlags(cmd *cobra.Command, w *adder.Ways) {
	f := cmd.Flags()
	f.StringVar(&w.REST, sidecar.RESTFlag, "127.0.0.1:8081", "`address` for REST over TCP")
	f.StringVar(&w.RESTSocket, sidecar.RESTSocketFlag, "", "`path` of the socket for REST")
	f.StringVar(&w.GRPC, sidecar.GRPCFlag, "127.0.0.1:8082", "`address` for gRPC over TCP")
	f.StringVar(&w.GRPCSocket, sidecar.GRPCSocketFlag, "", "`path` of the socket for gRPC")
}

func handled(h http.Handler) func(context.Context, net.Listener) error {
	return func(ctx context.Context, l net.Listener) error {
		return httpserver.Serve(ctx, l, &http.Server{Handler: h})
	}
}

func newAdderClientCommand() *cobra.Command {
	var server, metrics string
	var payload app.Size
	var every time.Duration
	cmd := &cobra.Command{
		Use:   "adder-client",
		Short: "The client of the study to-sidecar-or-not: calls all routes side by side",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := adder.NewClient(server, int64(payload), every)
			if err != nil {
				return err
			}
			running, ctx := errgroup.WithContext(cmd.Context())
			running.Go(func() error { return c.Run(ctx) })
			running.Go(func() error {
				return serveAll(ctx, cmd.OutOrStdout(), "adder-client", []port{{metrics, handled(c.Metrics()), "has its metrics on " + metricsURL}}, new(atomic.Bool))
			})
			return running.Wait()
		},
	}
	f := cmd.Flags()
	f.StringVar(&server, "server", "http://127.0.0.1:8080", "`URL` of the server")
	f.StringVar(&metrics, "metrics", "127.0.0.1:9090", "`address` of the Prometheus metrics")
	f.Var(scalar{&payload, "size"}, "request-size", "length of the payload")
	f.DurationVar(&every, "every", 2*time.Second, "time between two requests for a route")
	return cmd
}
