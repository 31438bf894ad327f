package main

import (
	"github.com/spf13/cobra"

	"github.com/tare-mesh/tare/internal/inside/nodeagent"
)

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
