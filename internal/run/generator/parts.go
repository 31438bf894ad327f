package generator

import (
	"bufio"
	"bytes"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/tare-mesh/tare/internal/base/hint"
	"github.com/tare-mesh/tare/internal/base/routine"
	"github.com/tare-mesh/tare/internal/load"
	"github.com/tare-mesh/tare/internal/load/record"
	"github.com/tare-mesh/tare/internal/load/schedule"
	"github.com/tare-mesh/tare/internal/result"
)

// Part is the share of one process in a load, with its output.
type Part struct {
	Profile load.Profile
	Stdout  io.Reader
	// Ahead is the offset of the process's clock from the clock of the whole
	// load's Start, positive if ahead.
	Ahead time.Duration
	// Unsure is the maximum error of Ahead.
	Unsure time.Duration
}

// Split divides p among n processes of tare's engine that together send exactly p: each
// takes every n-th request of the schedule, and a share of the connections. Each writes
// its interval log into its own directory beside p's. The error wraps
// errors.ErrUnsupported if p is not divisible.
func Split(p load.Profile, n int) ([]load.Profile, error) {
	if n <= 1 {
		return []load.Profile{p}, nil
	}
	if p.Connections < n {
		return nil, fmt.Errorf("share load: %d connections among %d load workers: %w", p.Connections, n, errors.ErrUnsupported)
	}
	parts := make([]load.Profile, n)
	for i := range parts {
		part := p
		part.Connections = schedule.Share(p.Connections, n, i)
		part.Part, part.Parts = i, n
		if p.HDRPath != "" {
			part.HDRPath = filepath.Join(partsOf(p.HDRPath), strconv.Itoa(i), filepath.Base(p.HDRPath))
		}
		parts[i] = part
	}
	return parts, nil
}

// partsOf is the directory of the interval logs of the parts of a load.
func partsOf(log string) string { return filepath.Join(filepath.Dir(log), "parts") }

// RemoveLogs removes the interval logs of the parts of a load: they are complete only together.
func RemoveLogs(p load.Profile) error {
	if p.HDRPath == "" {
		return nil
	}
	return hint.Prefix(os.RemoveAll(partsOf(p.HDRPath)), "remove the parts of the interval log")
}

// ParseParts reads the outputs of all parts of one load concurrently, each to its
// end, and merges them. Several parts are of tare's engine. It calls progress for a
// second after every part has reported that second.
func ParseParts(g Generator, parts []Part, whole load.Profile, progress func(load.Progress)) (result.Load, error) {
	if len(parts) == 1 {
		l, err := g.Parse(parts[0].Stdout, parts[0].Profile, progress)
		return moved(l, -parts[0].Ahead), err
	}
	return mergeReports(parts, whole, SumProgress(len(parts), progress))
}

func moved(l result.Load, by time.Duration) result.Load {
	if !l.Start.IsZero() {
		l.Start, l.End = l.Start.Add(by), l.End.Add(by)
	}
	return l
}

// mergeReports merges the reports of the engine: it adds counts, and distributions bucket by bucket.
func mergeReports(parts []Part, whole load.Profile, progress func(load.Progress)) (result.Load, error) {
	reports := make([]load.Report, len(parts))
	var reading errgroup.Group
	for i, part := range parts {
		reading.Go(routine.Guarded(func() error {
			r, err := load.NewLines(part.Stdout).Report(progress)
			if err != nil {
				return fmt.Errorf("load worker %d: %w", i, err)
			}
			r.OnClock(load.ClockOf(part.Ahead, part.Unsure))
			reports[i] = *r
			return nil
		}))
	}
	if err := reading.Wait(); err != nil {
		return result.Load{}, err
	}
	m, err := record.Merge(reports)
	if err != nil {
		return result.Load{}, err
	}
	l := fromReport(&m, whole)
	l.Workers = len(parts)
	return l, nil
}

// MergeLogs merges the parts' interval logs into one at path. Each part has one.
func MergeLogs(path string, start time.Time, parts []load.Profile) (err error) {
	var logs []io.Reader
	for _, p := range parts {
		f, err := os.Open(p.HDRPath)
		if errors.Is(err, os.ErrNotExist) {
			continue
		}
		if err != nil {
			return fmt.Errorf("merge interval logs: %w", err)
		}
		defer f.Close()
		logs = append(logs, f)
	}
	if len(logs) < len(parts) {
		return fmt.Errorf("merge interval logs: only %d of %d load workers left one", len(logs), len(parts))
	}
	out, err := os.Create(path)
	if err != nil {
		return fmt.Errorf("merge interval logs: %w", err)
	}
	if err := errors.Join(record.MergeLogs(out, start, logs...), out.Close()); err != nil {
		_ = os.Remove(path)
		return err
	}
	return nil
}

// SumProgress returns a function that receives the progress of n processes. It
// calls report for a second after all n have reported that second. Counts are
// sums. A percentile is the worst of the n, since percentiles cannot be added.
func SumProgress(n int, report func(load.Progress)) func(load.Progress) {
	if report == nil {
		return func(load.Progress) {}
	}
	type second struct {
		load.Progress
		seen int
	}
	var mu sync.Mutex
	seconds := map[int]*second{}
	return func(p load.Progress) {
		mu.Lock()
		defer mu.Unlock()
		at := seconds[p.Second]
		if at == nil {
			at = &second{Progress: load.Progress{Second: p.Second, Phase: p.Phase}}
			seconds[p.Second] = at
		}
		at.Intended += p.Intended
		at.Completed += p.Completed
		at.Errors += p.Errors
		at.P50MS, at.P99MS = max(at.P50MS, p.P50MS), max(at.P99MS, p.P99MS)
		if at.seen++; at.seen == n {
			report(at.Progress)
			delete(seconds, p.Second)
		}
	}
}

// maxRow bounds one line of a record of requests, in bytes.
const maxRow = 16 << 20

// eachRow reads comma-separated rows of a fixed number of columns. It skips a first
// row whose first cell is header.
func eachRow(r io.Reader, generator, header string, columns int, row func([]string) error) error {
	c := csv.NewReader(&bounded{r: bufio.NewReader(r)})
	c.FieldsPerRecord = columns
	c.ReuseRecord = true
	for n := 0; ; n++ {
		cells, err := c.Read()
		if errors.Is(err, io.EOF) {
			if n == 0 {
				return fmt.Errorf("read output of %s: it is empty", generator)
			}
			return nil
		}
		if err != nil {
			return fmt.Errorf("read output of %s: %w", generator, err)
		}
		if n == 0 && cells[0] == header {
			continue
		}
		if n > maxRecords {
			return tooMany(generator)
		}
		if err := row(cells); err != nil {
			line, _ := c.FieldPos(0)
			return fmt.Errorf("read output of %s: line %d: %w", generator, line, err)
		}
	}
}

func tooMany(generator string) error {
	return fmt.Errorf("read output of %s: more than %d requests", generator, maxRecords)
}

// bounded fails on a line longer than maxRow before the line is in memory.
type bounded struct {
	r    io.Reader
	line int
}

func (b *bounded) Read(p []byte) (int, error) {
	n, err := b.r.Read(p[:min(len(p), maxRow)])
	if i := bytes.IndexByte(p[:n], '\n'); i >= 0 {
		if b.line+i > maxRow {
			return 0, errLine
		}
		b.line = n - 1 - bytes.LastIndexByte(p[:n], '\n')
	} else if b.line += n; b.line > maxRow {
		return 0, errLine
	}
	return n, err
}

var errLine = fmt.Errorf("a line is longer than %d bytes", maxRow)

// eachLine reads lines of bounded length.
func eachLine(r io.Reader, generator string, line func(string) error) error {
	s := bufio.NewScanner(r)
	s.Buffer(nil, maxRow)
	n := 0
	for s.Scan() {
		n++
		if err := line(s.Text()); err != nil {
			return fmt.Errorf("read output of %s: line %d: %w", generator, n, err)
		}
	}
	if err := s.Err(); err != nil {
		return fmt.Errorf("read output of %s: %w", generator, err)
	}
	if n == 0 {
		return fmt.Errorf("read output of %s: it is empty", generator)
	}
	return nil
}

// counts omits figures that are not a count.
func counts[T ~float64](m map[string]*T) map[string]int64 {
	if m == nil {
		return nil
	}
	out := make(map[string]int64, len(m))
	for k, v := range m {
		if v == nil {
			continue
		}
		if n := count(float64(*v)); n != nil {
			out[k] = *n
		}
	}
	return out
}

// value is 0 for an absent number.
func value(n *int64) int64 {
	if n == nil {
		return 0
	}
	return *n
}

func sum(m map[string]int64) int64 {
	var n int64
	for _, v := range m {
		n = min(n+v, maxCount)
	}
	return n
}

// refused returns an error that wraps errors.ErrUnsupported with a reason.
func refused(generator, format string, args ...any) error {
	return fmt.Errorf("load profile for %s: %s: %w", generator, fmt.Sprintf(format, args...), errors.ErrUnsupported)
}
