package main

import (
	"context"
	"fmt"
	"net"

	"github.com/spf13/cobra"

	"github.com/tare-mesh/tare/internal/inside/service"
)

// server answers the requests of tare.
type server interface {
	Serve(ctx context.Context, l net.Listener) error
}

// serveWithToken listens on the loopback address for clients with the token of a file.
func serveWithToken(cmd *cobra.Command, address, tokenFile string, make func(token string) (server, error)) error {
	if tokenFile == "" {
		return fmt.Errorf("%s: --token-file is missing", cmd.Name())
	}
	token, err := service.ReadToken(tokenFile)
	if err != nil {
		return err
	}
	s, err := make(token)
	if err != nil {
		return err
	}
	l, err := service.Listen(address)
	if err != nil {
		return err
	}
	defer l.Close()
	fmt.Fprintf(cmd.OutOrStdout(), "tare-agent: %s listens on %s\n", cmd.Name(), l.Addr())
	return s.Serve(cmd.Context(), l)
}
