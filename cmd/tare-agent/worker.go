package main

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/tare-mesh/tare/internal/inside/service"
	"github.com/tare-mesh/tare/internal/load/worker"
)

func newWorkerCommand() *cobra.Command {
	var listen, tokenFile, dir string
	cmd := &cobra.Command{
		Use:   "worker",
		Short: "Run commands for tare in a pod of load workers",
		Long: `worker runs one command at a time for a client with the token. The client reads
the command's output by offset, and its files. worker listens on the loopback
address: tare reaches it by a forwarded port.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if tokenFile == "" {
				return errors.New("worker: --token-file is missing")
			}
			token, err := service.ReadToken(tokenFile)
			if err != nil {
				return err
			}
			s, err := worker.NewServer(token, dir)
			if err != nil {
				return err
			}
			l, err := service.Listen(listen)
			if err != nil {
				return err
			}
			defer l.Close()
			fmt.Fprintf(cmd.OutOrStdout(), "tare-agent: worker listens on %s\n", l.Addr())
			return s.Serve(cmd.Context(), l)
		},
	}
	f := cmd.Flags()
	f.StringVar(&listen, "listen", "127.0.0.1:9095", "`address` to listen on")
	f.StringVar(&tokenFile, "token-file", "", "`file` with the token that every request needs")
	f.StringVar(&dir, "dir", "/tmp", "`directory` for the commands to work in")
	return cmd
}
