package generator

import (
	"bufio"
	"bytes"
	"cmp"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"math"
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

// Split divides p among n processes that together send exactly p. Tare's engine
// takes every n-th request of the schedule. Another generator gets an integer rate
// (7 among 3 are 3, 2 and 2) and a share of the connections. Each process writes
// its interval log into its own directory beside p's. The error wraps
// errors.ErrUnsupported if p is not divisible.
func Split(g Generator, p load.Profile, n int) ([]load.Profile, error) {
	if n <= 1 {
		return []load.Profile{p}, nil
	}
	if p.Connections < n {
		return nil, fmt.Errorf("share load: %d connections among %d load workers: %w", p.Connections, n, errors.ErrUnsupported)
	}
	foreign := g.Abilities().Foreign()
	if foreign && p.Rate > 0 && (p.Rate != math.Trunc(p.Rate) || p.Rate < float64(n)) {
		return nil, fmt.Errorf("share load: %s sends whole requests per second, and %v/s cannot be shared so among %d load workers: %w",
			g.Name(), p.Rate, n, errors.ErrUnsupported)
	}
	parts := make([]load.Profile, n)
	for i := range parts {
		part := p
		part.Connections = schedule.Share(p.Connections, n, i)
		if foreign {
			part.Rate = float64(schedule.Share(int(p.Rate), n, i))
		} else {
			part.Part, part.Parts = i, n
		}
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
// end, and merges them. Counts are added, and the lateness is the worst of the
// parts. It calls progress for a second after every part has reported that
// second.
func ParseParts(g Generator, parts []Part, whole load.Profile, progress func(load.Progress)) (result.Load, error) {
	if len(parts) == 1 {
		l, err := g.Parse(parts[0].Stdout, parts[0].Profile, progress)
		return moved(l, -parts[0].Ahead), err
	}
	sum := SumProgress(len(parts), progress)
	if merge := g.Abilities().merge; merge != nil {
		return merge(parts, whole, sum)
	}
	loads := make([]result.Load, len(parts))
	var reading errgroup.Group
	for i, part := range parts {
		reading.Go(routine.Guarded(func() error {
			l, err := g.Parse(part.Stdout, part.Profile, sum)
			loads[i] = moved(l, -part.Ahead)
			return hint.Prefix(err, "load worker %d", i)
		}))
	}
	if err := reading.Wait(); err != nil {
		return result.Load{}, err
	}
	return added(loads, whole), nil
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

// added returns the sum of the results of parts that one external generator each sent. A field that it does not set
// is absent from every part.
func added(parts []result.Load, whole load.Profile) result.Load {
	first := parts[0] // parts have one generator and one measure window
	sum := result.Load{
		Generator: first.Generator, Version: first.Version, Loop: first.Loop, Arrivals: first.Arrivals,
		Start: first.Start, End: first.End, WarmupSeconds: first.WarmupSeconds, MeasureSeconds: first.MeasureSeconds,
		AskedRate: whole.Rate, Connections: whole.Connections, Workers: len(parts),
		Classes: map[string]int64{}, Statuses: map[string]int64{}, Errors: map[string]int64{}, Whole: &result.Whole{},
	}
	for i, p := range parts {
		addCounts(sum.Classes, p.Classes)
		addCounts(sum.Statuses, p.Statuses)
		addCounts(sum.Errors, p.Errors)
		sum.Intended += p.Intended
		sum.Sent += p.Sent
		sum.Completed += p.Completed
		sum.Retried += p.Retried
		sum.BacklogStart, sum.BacklogEnd = plus(sum.BacklogStart, p.BacklogStart), plus(sum.BacklogEnd, p.BacklogEnd)
		sum.Whole = sum.Whole.Plus(p.Whole)
		sum.Opened += p.Opened
		sum.BytesIn += p.BytesIn
		sum.BytesOut += p.BytesOut
		sum.Recorded += p.Recorded
		sum.CPUSeconds = plus(sum.CPUSeconds, p.CPUSeconds)
		sum.LatenessP50US, sum.LatenessP99US = worst(sum.LatenessP50US, p.LatenessP50US), worst(sum.LatenessP99US, p.LatenessP99US)
		sum.LatenessMaxUS, sum.OwnLatenessP99US = worst(sum.LatenessMaxUS, p.LatenessMaxUS), worst(sum.OwnLatenessP99US, p.OwnLatenessP99US)
		sum.ThreadCPURatio, sum.CPUPressure = worst(sum.ThreadCPURatio, p.ThreadCPURatio), worst(sum.CPUPressure, p.CPUPressure)
		for _, d := range p.Published { // percentiles cannot be added: keep each with its part
			d.Source = fmt.Sprintf("%s, worker %d", d.Source, i)
			sum.Published = append(sum.Published, d)
		}
		for _, w := range p.Warnings {
			sum.Warnings = append(sum.Warnings, fmt.Sprintf("worker %d: %s", i, w))
		}
	}
	return sum
}

func addCounts(to, from map[string]int64) {
	for k, n := range from {
		to[k] += n
	}
}

func worst(a, b *float64) *float64 {
	if a == nil || b != nil && *b > *a {
		return b
	}
	return a
}

// plus adds figures and ignores absent ones.
func plus[T int64 | float64](a, b *T) *T {
	if a == nil || b == nil {
		return cmp.Or(a, b)
	}
	return new(*a + *b)
}

// MergeLogs merges the parts' interval logs into one at path. If no part has a
// log, it writes none. If only some parts have one, it returns an error.
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
	switch len(logs) {
	case 0:
		return nil // the generator writes no interval log
	case len(parts):
	default:
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
func counts(m map[string]*float64) map[string]int64 {
	if m == nil {
		return nil
	}
	out := make(map[string]int64, len(m))
	for k, v := range m {
		if v == nil {
			continue
		}
		if n := count(*v); n != nil {
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
