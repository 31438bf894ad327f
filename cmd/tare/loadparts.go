package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	"github.com/tare-mesh/tare/internal/load"
	"github.com/tare-mesh/tare/internal/loadgen"
)

// partsLead is how long before the agreed instant the processes are started: time
// to open their connections, beside that for measuring the floor.
const partsLead = 2 * time.Second

// loadInParts shares p among n processes that start at one instant, and merges
// what they report. The processes end with ctx.
func loadInParts(ctx context.Context, p loadgen.Profile, n int, progress func(loadgen.Progress), diag io.Writer) (loadgen.Report, error) {
	dir, err := os.MkdirTemp("", "tare-load-")
	if err != nil {
		return loadgen.Report{}, fmt.Errorf("share load: %w", err)
	}
	defer os.RemoveAll(dir)
	whole := p.HDRPath
	p.Start, p.Parts = time.Now().Add(partsLead+2*p.Calibrate), n
	var (
		running sync.WaitGroup
		reports = make([]loadgen.Report, n)
		errs    = make([]error, n)
		logs    = make([]string, n)
		sum     = partsProgress{n: n, tell: progress, seconds: map[int]*partsSecond{}}
	)
	for i := range n {
		part := p
		part.Part, part.Connections = i, p.Connections/n
		if i < p.Connections%n {
			part.Connections++
		}
		if i > 0 {
			part.Calibrate = 0 // one floor is enough, and the others would disturb it
		}
		if whole != "" {
			logs[i] = filepath.Join(dir, fmt.Sprintf("%d.hdr", i))
			part.HDRPath = logs[i]
		}
		running.Go(func() { reports[i], errs[i] = loadPart(ctx, part, sum.add, diag) })
	}
	running.Wait()
	if err := errors.Join(errs...); err != nil {
		return loadgen.Report{}, err
	}
	report, err := loadgen.Merge(reports)
	if err == nil && whole != "" {
		err = mergeLogs(whole, report.Started, logs)
	}
	return report, err
}

// loadPart runs one process to its end.
func loadPart(ctx context.Context, p loadgen.Profile, progress func(loadgen.Progress), diag io.Writer) (loadgen.Report, error) {
	fail := func(err error) (loadgen.Report, error) {
		return loadgen.Report{}, fmt.Errorf("load process %d: %w", p.Part, err)
	}
	b, err := json.Marshal(p)
	if err != nil {
		return fail(err)
	}
	cmd := exec.CommandContext(ctx, load.AgentPath(), "load")
	cmd.Stdin = bytes.NewReader(b)
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) } // it reports what it has
	cmd.WaitDelay = p.Drain + 5*time.Second
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		return fail(err)
	}
	if err := cmd.Start(); err != nil {
		return fail(err)
	}
	var report *loadgen.Report
	lines := bufio.NewScanner(stdout)
	lines.Buffer(nil, 16<<20)
	for lines.Scan() {
		var line loadgen.Line
		if err = json.Unmarshal(lines.Bytes(), &line); err != nil {
			break
		}
		if line.Progress != nil {
			progress(*line.Progress)
		}
		if line.Report != nil {
			report = line.Report
		}
	}
	err = errors.Join(err, lines.Err())
	_, _ = io.Copy(io.Discard, stdout)
	waited := cmd.Wait()
	switch {
	case report != nil && err == nil:
		return *report, nil // also where ctx has ended it
	case err == nil:
		err = errors.Join(errors.New("ended without a report"), waited)
	}
	_, _ = diag.Write(stderr.Bytes())
	return fail(err)
}

func mergeLogs(path string, start time.Time, parts []string) (err error) {
	readers := make([]io.Reader, 0, len(parts))
	for _, part := range parts {
		f, err := os.Open(part)
		if err != nil {
			return fmt.Errorf("merge interval logs: %w", err)
		}
		defer f.Close()
		readers = append(readers, f)
	}
	out, err := os.Create(path)
	if err != nil {
		return fmt.Errorf("merge interval logs: %w", err)
	}
	return errors.Join(loadgen.MergeLogs(out, start, readers...), out.Close())
}

// partsProgress tells of a second once every process has. Counts are sums; of the
// percentiles the worst is told, since they cannot be added.
type partsProgress struct {
	mu      sync.Mutex
	n       int
	tell    func(loadgen.Progress)
	seconds map[int]*partsSecond
}

type partsSecond struct {
	loadgen.Progress
	seen int
}

func (s *partsProgress) add(p loadgen.Progress) {
	if s.tell == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	at := s.seconds[p.Second]
	if at == nil {
		at = &partsSecond{Progress: loadgen.Progress{Second: p.Second, Phase: p.Phase}}
		s.seconds[p.Second] = at
	}
	at.Intended += p.Intended
	at.Completed += p.Completed
	at.Errors += p.Errors
	at.P50MS, at.P99MS = max(at.P50MS, p.P50MS), max(at.P99MS, p.P99MS)
	if at.seen++; at.seen == s.n {
		s.tell(at.Progress)
		delete(s.seconds, p.Second)
	}
}
