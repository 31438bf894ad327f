package main

import (
	"encoding/json"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/tare-mesh/tare/internal/base/probe"
)

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
