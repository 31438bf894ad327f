package main

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/tare-mesh/tare/internal/inside/nodeagent"
	"github.com/tare-mesh/tare/internal/inside/service"
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
			if tokenFile == "" {
				return errors.New("node: --token-file is missing")
			}
			token, err := service.ReadToken(tokenFile)
			if err != nil {
				return err
			}
			s, err := nodeagent.NewServer(token, root)
			if err != nil {
				return err
			}
			l, err := service.Listen(listen)
			if err != nil {
				return err
			}
			defer l.Close()
			fmt.Fprintf(cmd.OutOrStdout(), "tare-agent: node agent listens on %s\n", l.Addr())
			return s.Serve(cmd.Context(), l)
		},
	}
	f := cmd.Flags()
	f.StringVar(&listen, "listen", "127.0.0.1:9096", "`address` to listen on")
	f.StringVar(&tokenFile, "token-file", "", "`file` with the token that every request needs")
	f.StringVar(&root, "cgroups", "/sys/fs/cgroup", "`directory` of the control-group file system")
	return cmd
}
