package main

import (
	"github.com/spf13/cobra"

	"github.com/tare-mesh/tare/internal/load/worker"
)

func newWorkerCommand() *cobra.Command {
	var dir string
	cmd := tokenServer("worker", "Run commands for tare in a pod of load workers", `worker runs one command at a time for a client with the token. The client reads
the command's output by offset, and its files. worker listens on the loopback
address: tare reaches it by a forwarded port.`,
		"127.0.0.1:9095", func(token string) (server, error) { return worker.NewServer(token, dir) })
	cmd.Flags().StringVar(&dir, "dir", "/tmp", "`directory` for the commands to work in")
	return cmd
}
