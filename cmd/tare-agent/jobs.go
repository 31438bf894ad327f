package main

import (
	"encoding/json"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/tare-mesh/tare/internal/base/execution"
	"github.com/tare-mesh/tare/internal/base/probe"
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

func newProbeCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "probe",
		Short: "Measure the speed of the processors: run a fixed piece of work and print its time",
		Long: `probe runs the fixed work of a calibration reading on every processor it may
use, in about a tenth of a second, and writes the reading as one JSON line.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			r, err := probe.Local{}.Probe(cmd.Context())
			if err != nil {
				return err
			}
			if err := json.NewEncoder(cmd.OutOrStdout()).Encode(r); err != nil {
				return fmt.Errorf("write the reading: %w", err)
			}
			return nil
		},
	}
}
