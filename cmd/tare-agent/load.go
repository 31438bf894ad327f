package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/tare-mesh/tare/internal/loadgen"
)

// maxProfile bounds what is read as a profile.
const maxProfile = 16 << 20 // bytes

func newLoadCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "load",
		Short: "Send the load that a profile (JSON on standard input) describes",
		Long: `load reads a load profile as JSON on standard input, carries it out, and writes
one JSON line a second on standard output and the report as the last. At SIGTERM
or SIGINT it stops sending, waits for what is under way, and reports what was
measured.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			return runLoad(cmd.Context(), args, cmd.InOrStdin(), cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
}

func runLoad(ctx context.Context, _ []string, stdin io.Reader, stdout, stderr io.Writer) error {
	profile, err := readProfile(stdin)
	if err != nil {
		return err
	}
	loadgen.TuneProcess(profile.Workers)
	lines := json.NewEncoder(stdout)
	var broken error
	report, err := loadgen.Run(ctx, profile, func(p loadgen.Progress) {
		if broken == nil {
			broken = lines.Encode(loadgen.Line{Progress: &p})
		}
	})
	if err != nil {
		return err
	}
	for _, w := range report.Warnings {
		fmt.Fprintf(stderr, "tare-agent: warning: %s\n", w)
	}
	if err := errors.Join(broken, lines.Encode(loadgen.Line{Report: &report})); err != nil {
		return fmt.Errorf("write load report: %w", err)
	}
	return nil
}

// readProfile is strict: a field this agent does not know would be a wish that
// is silently not granted.
func readProfile(r io.Reader) (loadgen.Profile, error) {
	var p loadgen.Profile
	d := json.NewDecoder(io.LimitReader(r, maxProfile))
	d.DisallowUnknownFields()
	if err := d.Decode(&p); err != nil {
		return p, fmt.Errorf("read load profile: %w", err)
	}
	return p, nil
}
