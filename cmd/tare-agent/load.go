package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"github.com/tare-mesh/tare/internal/base/clock"
	"github.com/tare-mesh/tare/internal/load"
	"github.com/tare-mesh/tare/internal/load/engine"
	"github.com/tare-mesh/tare/internal/load/host"
)

// maxProfile is the max size of a profile.
const maxProfile = 16 << 20 // bytes

func newLoadCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "load",
		Short: "Send the load that a profile (JSON on standard input) describes",
		Long: `load reads a load profile as JSON on standard input, carries it out, and writes
one JSON line a second on standard output and the report as the last. Before the
profile {"clock": true} may be asked any number of times; each is answered by a
line with the time of day at which it was read and answered. At SIGTERM
or SIGINT it stops sending, waits for what is under way, and reports what was
measured.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			return runLoad(cmd.Context(), args, cmd.InOrStdin(), cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
}

func runLoad(ctx context.Context, _ []string, stdin io.Reader, stdout, stderr io.Writer) error {
	lines := json.NewEncoder(stdout)
	profile, err := readProfile(stdin, func(s clock.Stamps) error { return lines.Encode(load.Line{Clock: &s}) })
	if err != nil {
		return err
	}
	if err := profile.Validate(); err != nil {
		return fmt.Errorf("load profile: %w", err)
	}
	host.TuneProcess(profile.Workers)
	var broken error
	report, err := engine.Run(ctx, profile, func(p load.Progress) {
		if broken == nil {
			broken = lines.Encode(load.Line{Progress: &p})
		}
	})
	if err != nil {
		return err
	}
	for _, w := range report.Warnings {
		fmt.Fprintf(stderr, "tare-agent: warning: %s\n", w)
	}
	if err := errors.Join(broken, lines.Encode(load.Line{Report: &report})); err != nil {
		return fmt.Errorf("write load report: %w", err)
	}
	return nil
}

// readProfile rejects unknown fields: this agent would silently ignore a
// setting. It replies to clock requests that precede the profile.
func readProfile(r io.Reader, acknowledge func(clock.Stamps) error) (load.Profile, error) {
	var p load.Profile
	d := json.NewDecoder(io.LimitReader(r, maxProfile))
	for {
		var text json.RawMessage
		err := d.Decode(&text)
		received := time.Now().UnixNano()
		if err != nil {
			return p, fmt.Errorf("read load profile: %w", err)
		}
		var q load.Question
		if strictly(text, &q) != nil || !q.Clock {
			if err := strictly(text, &p); err != nil {
				return p, fmt.Errorf("read load profile: %w", err)
			}
			return p, nil
		}
		if err := acknowledge(clock.Stamps{Received: received, Sent: time.Now().UnixNano()}); err != nil {
			return p, fmt.Errorf("send the clock: %w", err)
		}
	}
}

func strictly(text []byte, into any) error {
	d := json.NewDecoder(bytes.NewReader(text))
	d.DisallowUnknownFields()
	return d.Decode(into)
}
