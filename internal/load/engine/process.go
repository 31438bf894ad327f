package engine

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/tare-mesh/tare/internal/base/clock"
	"github.com/tare-mesh/tare/internal/load"
	"github.com/tare-mesh/tare/internal/load/host"
)

// maxProfile is the max size of a profile.
const maxProfile = 16 << 20 // bytes

// Process runs a load as a process of its own: it reads a profile as JSON, and writes one JSON line
// a second, then the report. Warnings go to stderr, after the program's name.
func Process(ctx context.Context, program string, stdin io.Reader, stdout, stderr io.Writer, run func(context.Context, load.Profile, func(load.Progress)) (load.Report, error)) error {
	lines, in := json.NewEncoder(stdout), json.NewDecoder(io.LimitReader(stdin, maxProfile))
	profile, err := readProfile(in, func(s clock.Stamps) error { return lines.Encode(load.Line{Clock: &s}) })
	if err != nil {
		return err
	}
	if err := profile.Validate(); err != nil {
		return fmt.Errorf("load profile: %w", err)
	}
	if profile.Hold {
		profile.Await = func(ctx context.Context) (time.Time, error) {
			if err := lines.Encode(load.Line{Ready: true}); err != nil {
				return time.Time{}, fmt.Errorf("announce that the load is ready: %w", err)
			}
			return readStart(ctx, in)
		}
	}
	host.TuneProcess(profile.Workers)
	var broken error
	report, err := run(ctx, profile, func(p load.Progress) {
		if broken == nil {
			broken = lines.Encode(load.Line{Progress: &p})
		}
	})
	if err != nil {
		return err
	}
	for _, w := range report.Warnings {
		fmt.Fprintf(stderr, "%s: warning: %s\n", program, w)
	}
	if err := errors.Join(broken, lines.Encode(load.Line{Report: &report})); err != nil {
		return fmt.Errorf("write load report: %w", err)
	}
	return nil
}

// readProfile rejects unknown fields: this agent would silently ignore a
// setting. It replies to clock requests that precede the profile.
func readProfile(d *json.Decoder, acknowledge func(clock.Stamps) error) (load.Profile, error) {
	var p load.Profile
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

// readStart reads the start of a load that is held.
func readStart(ctx context.Context, d *json.Decoder) (time.Time, error) {
	var b load.Begin
	read := make(chan error, 1)
	go func() {
		err := d.Decode(&b)
		if err == nil && b.Start.IsZero() {
			err = errors.New("it is absent")
		}
		read <- err
	}()
	select {
	case err := <-read:
		if err != nil {
			return time.Time{}, fmt.Errorf("read the start of the load: %w", err)
		}
		return b.Start, nil
	case <-ctx.Done():
		return time.Time{}, fmt.Errorf("stopped before the load began: %w", context.Cause(ctx))
	}
}

func strictly(text []byte, into any) error {
	d := json.NewDecoder(bytes.NewReader(text))
	d.DisallowUnknownFields()
	return d.Decode(into)
}
