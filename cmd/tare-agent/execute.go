package main

import (
	"github.com/spf13/cobra"

	"github.com/tare-mesh/tare/internal/base/execution"
)

func newExecuteCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "execute",
		Short: "Execute programs that end, and read what each execution used",
		Long: `execute reads a series of executions from standard input, as JSON, and writes one JSON
line for each execution.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return execution.Serve(cmd.Context(), cmd.InOrStdin(), cmd.OutOrStdout())
		},
	}
}
