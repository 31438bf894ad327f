package main

import (
	"github.com/spf13/cobra"

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
			return serveWithToken(cmd, listen, tokenFile, func(token string) (server, error) { return worker.NewServer(token, dir) })
		},
	}
	f := cmd.Flags()
	f.StringVar(&listen, "listen", "127.0.0.1:9095", "`address` to listen on")
	f.StringVar(&tokenFile, "token-file", "", "`file` with the token that every request needs")
	f.StringVar(&dir, "dir", "/tmp", "`directory` for the commands to work in")
	return cmd
}
