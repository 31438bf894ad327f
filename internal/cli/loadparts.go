package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"sync"
	"syscall"
	"time"

	"github.com/tare-mesh/tare/internal/base/clock"
	"github.com/tare-mesh/tare/internal/base/routine"
	"github.com/tare-mesh/tare/internal/load"
	"github.com/tare-mesh/tare/internal/load/record"
	"github.com/tare-mesh/tare/internal/run/generator"
)

// partsLead is how long before the agreed instant the processes are started: time
// to open their connections, beside that for measuring the floor.
const partsLead = 2 * time.Second

// loadInParts shares p among n processes that start at one instant, and merges
// what they report. The processes end with ctx.
func loadInParts(ctx context.Context, p load.Profile, n int, progress func(load.Progress), diag io.Writer) (load.Report, error) {
	dir, err := os.MkdirTemp("", "tare-load-")
	if err != nil {
		return load.Report{}, fmt.Errorf("share load: %w", err)
	}
	defer os.RemoveAll(dir)
	whole := p.HDRPath
	p.Start = time.Now().Add(partsLead + 2*p.Calibrate)
	shared := p
	if whole != "" {
		shared.HDRPath = filepath.Join(dir, filepath.Base(whole))
	}
	parts, err := generator.Split(generator.Tare{}, shared, n)
	if err != nil {
		return load.Report{}, err
	}
	for _, part := range parts {
		if err := os.MkdirAll(filepath.Dir(part.HDRPath), 0o700); whole != "" && err != nil {
			return load.Report{}, fmt.Errorf("share load: %w", err)
		}
	}
	var (
		running sync.WaitGroup
		reports = make([]load.Report, n)
		errs    = make([]error, n)
		sum     = generator.SumProgress(n, progress)
	)
	for i, part := range parts {
		part.CPUs = cpusOf(p.CPUs, i*max(1, p.Workers))
		if i > 0 {
			part.Calibrate = 0 // one floor is enough, and the others would disturb it
		}
		running.Go(routine.Guarded(func() { reports[i], errs[i] = loadPart(ctx, part, sum, diag) }))
	}
	running.Wait()
	if err := errors.Join(errs...); err != nil {
		return load.Report{}, err
	}
	report, err := record.Merge(reports)
	if err == nil && whole != "" {
		err = generator.MergeLogs(whole, report.Started, parts)
	}
	return report, err
}

// cpusOf returns all cpus, rotated past the CPUs of earlier workers: the first worker of each
// process is pinned to the first CPU.
func cpusOf(cpus []int, earlier int) []int {
	if len(cpus) == 0 {
		return nil
	}
	first := earlier % len(cpus)
	return slices.Concat(cpus[first:], cpus[:first])
}

// loadPart runs one process of tare-agent to its end.
func loadPart(ctx context.Context, p load.Profile, progress func(load.Progress), diag io.Writer) (load.Report, error) {
	fail := func(err error) (load.Report, error) {
		return load.Report{}, fmt.Errorf("load process %d: %w", p.Part, err)
	}
	cmd := exec.CommandContext(ctx, generator.AgentPath(), "load")
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) } // it reports what it has
	cmd.WaitDelay = p.Drain + 5*time.Second
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	stdin, errIn := cmd.StdinPipe()
	stdout, errOut := cmd.StdoutPipe()
	if err := errors.Join(errIn, errOut); err != nil {
		return fail(err)
	}
	if err := cmd.Start(); err != nil {
		return fail(err)
	}
	var report *load.Report
	lines := load.NewLines(stdout)
	skew, err := startPart(stdin, lines, p)
	if err == nil {
		report, err = lines.Report(progress)
	}
	_, _ = io.Copy(io.Discard, stdout)
	waited := cmd.Wait()
	switch {
	case report != nil && err == nil:
		report.OnClock(skew)
		return *report, nil // also where ctx has ended it
	case errors.Is(err, load.ErrNoReport):
		err = errors.Join(errors.New("ended without a report"), waited)
	}
	_, _ = diag.Write(stderr.Bytes())
	return fail(err)
}

// startPart compares the process's clock with this one's, and sends it its profile with
// the start by its own clock.
func startPart(stdin io.WriteCloser, lines *load.Lines, p load.Profile) (load.Clock, error) {
	defer stdin.Close()
	questions := json.NewEncoder(stdin)
	ahead, bound, err := clock.Measure(time.Now, func() (clock.Stamps, error) {
		if err := questions.Encode(load.Question{Clock: true}); err != nil {
			return clock.Stamps{}, err
		}
		line, err := lines.Next()
		switch {
		case errors.Is(err, io.EOF):
			return clock.Stamps{}, io.ErrUnexpectedEOF
		case err != nil:
			return clock.Stamps{}, err
		case line.Clock == nil:
			return clock.Stamps{}, errors.New("the line after a clock question has no clock")
		}
		return *line.Clock, nil
	})
	if err != nil {
		return load.Clock{}, err
	}
	p.Start = p.Start.Add(ahead)
	return load.ClockOf(ahead, bound), questions.Encode(p)
}
