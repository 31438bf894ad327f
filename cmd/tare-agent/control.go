package main

import (
	"context"
	"net"

	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"

	"github.com/tare-mesh/tare/internal/base/routine"
	"github.com/tare-mesh/tare/internal/inside/control"
	"github.com/tare-mesh/tare/internal/inside/service"
)

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
