package main

import (
	"github.com/spf13/cobra"

	"github.com/tare-mesh/tare/internal/load/engine"
)

func newLoadCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "load",
		Short: "Send the load that a profile (JSON on standard input) describes",
		Long: `load reads a load profile as JSON on standard input, carries it out, and writes
one JSON line a second on standard output and the report as the last. Before the
profile {"clock": true} may be asked any number of times; each is answered by a
line with the time of day at which it was read and answered. After a profile with
"hold" the line {"ready": true} announces that the connections are open, and the
load begins at the time in {"start": "…"}, which must follow. At SIGTERM or SIGINT
it stops sending, waits for what is under way, and reports what was measured.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return engine.Process(cmd.Context(), "tare-agent", cmd.InOrStdin(), cmd.OutOrStdout(), cmd.ErrOrStderr(), engine.Run)
		},
	}
}
