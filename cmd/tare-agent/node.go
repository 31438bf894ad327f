package main

import (
	"github.com/spf13/cobra"

	"github.com/tare-mesh/tare/internal/inside/nodeagent"
)

func newNodeCommand() *cobra.Command {
	var listen, tokenFile, root string
	cmd := &cobra.Command{
		Use:   "node",
		Short: "Read the control groups of a node's containers",
		Long: `node reads CPU time and memory of containers from the control groups of its node, for a
client with the token: at once, or at planned instants of its own clock. It writes
nothing and starts nothing. It listens on the loopback address: tare reaches it by a
forwarded port.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return serveWithToken(cmd, listen, tokenFile, func(token string) (server, error) { return nodeagent.NewServer(token, root) })
		},
	}
	f := cmd.Flags()
	f.StringVar(&listen, "listen", "127.0.0.1:9096", "`address` to listen on")
	f.StringVar(&tokenFile, "token-file", "", "`file` with the token that every request needs")
	f.StringVar(&root, "cgroups", "/sys/fs/cgroup", "`directory` of the control-group file system")
	return cmd
}
