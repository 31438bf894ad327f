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
