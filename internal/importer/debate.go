package importer

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/tare-mesh/tare/internal/experiment"
	"github.com/tare-mesh/tare/internal/metric"
	"github.com/tare-mesh/tare/internal/result"
)

// debateFile is {rate}-{run}-metrics.csv or {rate}-{run}-{generator}[-{pod}].log.
var debateFile = regexp.MustCompile(`^(\d+)-(\d+)-(?:(metrics\.csv)|(wrk2|oha)(?:-[A-Za-z0-9]+)*\.log)$`)

// loop is the number of a loop behind the mesh in a directory's name: linkerd-00.
var loop = regexp.MustCompile(`-\d\d$`)

// sequenceRun is the files of one run.
type sequenceRun struct {
	dir  string
	mesh string
	rate int
	run  int
	csv  string
	logs []string
}

// readDebate reads sequences of the debate: directories, or files as a shell expands them.
func readDebate(paths []string, o Options) (*Study, error) {
	s := &Study{Source: "great-sidecar-debate", Name: "great-sidecar-debate",
		Description: "Imported: sequences of the Great Sidecar Debate's benchmark."}
	runs, err := debateRuns(s, paths, o)
	if err != nil {
		return nil, err
	}
	s.Trials = make([]Trial, len(runs))
	o.memory = new(atomic.Int64)
	o.memory.Store(maxOriginals)
	var group errgroup.Group
	group.SetLimit(runtime.GOMAXPROCS(0))
	for i := range runs {
		group.Go(func() error {
			s.Trials[i] = runs[i].trial(o)
			return nil
		})
	}
	_ = group.Wait() // what is wrong with a run is in its trial
	slices.SortStableFunc(s.Trials, func(a, b Trial) int { return a.Record.Started.Compare(b.Record.Started) })
	s.crossCheck()
	return s, nil
}

func debateRuns(s *Study, paths []string, o Options) ([]*sequenceRun, error) {
	files, err := listFiles(s, paths)
	if err != nil {
		return nil, err
	}
	byKey := map[string]*sequenceRun{}
	var runs []*sequenceRun
	for _, path := range files {
		m := debateFile.FindStringSubmatch(filepath.Base(path))
		if m == nil {
			s.Skipped = append(s.Skipped, path+": not a file of a sequence")
			continue
		}
		rate, err1 := strconv.Atoi(m[1])
		run, err2 := strconv.Atoi(m[2])
		if err := errors.Join(err1, err2); err != nil || rate == 0 {
			return nil, &FileError{Path: path, Err: fmt.Errorf("%s is not a rate and a run", m[1]+"-"+m[2])}
		}
		dir := filepath.Dir(path)
		key := fmt.Sprintf("%s\x00%d\x00%d", dir, rate, run)
		r := byKey[key]
		if r == nil {
			r = &sequenceRun{dir: dir, mesh: cmp.Or(o.Mesh, meshOf(dir)), rate: rate, run: run}
			byKey[key], runs = r, append(runs, r)
			if !slices.Contains(s.Meshes, r.mesh) {
				s.Meshes = append(s.Meshes, r.mesh)
			}
		}
		if m[3] != "" {
			r.csv = path
		} else {
			r.logs = append(r.logs, path)
		}
	}
	if len(runs) == 0 {
		return nil, &FileError{Path: strings.Join(paths, ", "), Err: errors.New("no file of a sequence is there"),
			Help: "name directories such as V1/Data/linkerd or OUT/linkerd-00, with files such as 60-1-metrics.csv"}
	}
	slices.SortStableFunc(runs, func(a, b *sequenceRun) int {
		return cmp.Or(cmp.Compare(slices.Index(s.Meshes, a.mesh), slices.Index(s.Meshes, b.mesh)), cmp.Compare(a.rate, b.rate), cmp.Compare(a.dir, b.dir), cmp.Compare(a.run, b.run))
	})
	return runs, nil
}

// meshOf is the name of the directory, without the number of a loop.
func meshOf(dir string) string {
	if abs, err := filepath.Abs(dir); err == nil {
		dir = abs
	}
	base := filepath.Base(dir)
	if short := loop.ReplaceAllString(base, ""); short != "" {
		return short
	}
	return base
}

// listFiles walks directories, in the order in which the paths were given; each
// file once. As the debate's own script does, it passes over paths with ERROR in them.
func listFiles(s *Study, paths []string) ([]string, error) {
	var files []string
	seen := map[string]bool{}
	take := func(path string) {
		switch clean := filepath.Clean(path); {
		case seen[clean]:
		case strings.Contains(path, "ERROR"):
			s.Skipped = append(s.Skipped, path+": ERROR is in its path")
		default:
			seen[clean] = true
			files = append(files, clean)
		}
	}
	for _, p := range paths {
		info, err := os.Stat(p)
		if err != nil {
			return nil, &FileError{Path: p, Err: errors.Unwrap(err)}
		}
		if !info.IsDir() {
			take(p)
			continue
		}
		err = filepath.WalkDir(p, func(path string, d fs.DirEntry, err error) error {
			switch {
			case err != nil:
				return &FileError{Path: path, Err: err}
			case d.IsDir() && path != p && strings.HasPrefix(d.Name(), "."):
				return filepath.SkipDir
			case d.Type().IsRegular():
				take(path)
			}
			return nil
		})
		if err != nil {
			return nil, err
		}
	}
	return files, nil
}

// trial reads the files of one run.
func (r *sequenceRun) trial(o Options) Trial {
	t := Trial{Mesh: r.mesh, Rate: experiment.Rate(r.rate), RateKnown: true, Run: fmt.Sprintf("%s/%d-%d", r.dir, r.rate, r.run)}
	t.Record.Valid = true
	if r.csv != "" {
		t.Files = append(t.Files, r.csv)
	}
	t.Files = append(t.Files, r.logs...)
	outs, err := r.outputs(&t, o)
	if err == nil {
		err = r.resources(&t, o, outs)
	}
	if err == nil {
		err = r.requests(&t, outs)
	}
	if err != nil {
		t.Record.Valid, t.Record.Error = false, err.Error()
		t.Record.Sampled, t.Record.Load, t.Latency = nil, nil, nil
	}
	return t
}

// outputs reads the logs of the run's load generators.
func (r *sequenceRun) outputs(t *Trial, o Options) ([]*output, error) {
	var outs []*output
	for _, path := range r.logs {
		b, err := t.read(path, o)
		if err != nil {
			return nil, err
		}
		name := debateFile.FindStringSubmatch(filepath.Base(path))[4]
		out, err := parseOutput(name, path, b, true) // the debate's job runs oha with --latency-correction
		if err != nil {
			return nil, err
		}
		out.loop, out.arrivals = "open", "constant" // both are asked for a rate
		outs = append(outs, out)
	}
	return outs, nil
}

// resources reads the run's metrics and finds its measure phase.
func (r *sequenceRun) resources(t *Trial, o Options, outs []*output) error {
	if r.csv == "" {
		t.warn("metrics-missing", "the run has no metrics CSV", "CPU and memory of this run are unknown", resourceMetrics...)
		return nil
	}
	b, err := t.read(r.csv, o)
	if err != nil {
		return err
	}
	table, err := parseTable(r.csv, b)
	if err != nil {
		return err
	}
	sampled, strange, err := table.planes()
	if err != nil {
		return err
	}
	if len(strange) > 0 {
		t.warn("unknown-columns", fmt.Sprintf("%s has columns that are not known: %s", r.csv, strings.Join(strange, ", ")),
			"their figures are not imported; if they matter, say so with the file", resourceMetrics...)
	}
	sampled.Shorten()
	t.Record.Sampled = sampled
	t.phases(table, o, outs)
	return nil
}

// resourceMetrics rest on the sampled figures.
var resourceMetrics = metric.Sampled()

// phases cuts warm-up and tail off the time in which the load generator was
// seen: by time, never by what the figures were.
func (t *Trial) phases(table *table, o Options, outs []*output) {
	rows := table.rows
	first, last := table.loaded()
	if first < 0 {
		t.warn("load-unseen", "no row of "+table.path+" shows the load generator: warm-up and tail are cut from the ends of the file", "", resourceMetrics...)
		first, last = 0, len(rows)-1
	}
	warmup, tail := o.cuts()
	start, end := rows[first].at, rows[last].at
	from, to := start.Add(warmup), end.Add(-tail)
	r := &t.Record
	r.Started, r.Ended = rows[0].at, rows[len(rows)-1].at
	if !from.Before(to) {
		t.invalidate("too-short", fmt.Sprintf("%s shows the load for %v, and %v and %v are cut from its ends", table.path, end.Sub(start), warmup, tail),
			"import with a shorter --warmup and --tail")
		from, to = start, end
	}
	r.Phases = []result.Phase{{Name: "warmup", Start: start, End: from}, {Name: "measure", Start: from, End: to}, {Name: "drain", Start: to, End: r.Ended}}
	t.clock(table, first, last, outs)
}

// loaded are the first and the last row in which the load generator was seen; -1 where it never was.
func (t *table) loaded() (first, last int) {
	first = -1
	columns := []int{t.of("load", "mem"), t.of("iperf", "mem")}
	for i, r := range t.rows {
		if r.value(columns[0]) <= 0 && r.value(columns[1]) <= 0 {
			continue
		}
		if first < 0 {
			first = i
		}
		last = i
	}
	return first, last
}

// clock notices a clock that was set forward, and a sampler that stood still.
func (t *Trial) clock(table *table, first, last int, outs []*output) {
	rows := table.rows
	var steps []time.Duration
	for i := 1; i < len(rows); i++ {
		steps = append(steps, rows[i].at.Sub(rows[i-1].at))
	}
	slices.Sort(steps)
	if len(steps) < 3 {
		return
	}
	usual := steps[len(steps)/2]
	seen := rows[last].at.Sub(rows[first].at)
	for i := first + 1; i <= last; i++ {
		step := rows[i].at.Sub(rows[i-1].at)
		if step <= 3*usual+30*time.Second {
			continue
		}
		if len(outs) > 0 && seen > seconds(outs[0].seconds)+3*usual+60*time.Second {
			t.invalidate("clock-jumped", fmt.Sprintf("%s:%d: %v passed since the row before, and the load was there for %v of the %.0f s it ran: the clock was set forward",
				table.path, rows[i].line, step, seen, outs[0].seconds), "leave this run out")
			return
		}
		t.warn("samples-missing", fmt.Sprintf("%s:%d: no sample for %v", table.path, rows[i].line, step), "the figures of that time are missing from the average", resourceMetrics...)
		return
	}
	if len(outs) > 0 && seen > seconds(outs[0].seconds)+3*usual+60*time.Second {
		t.invalidate("other-run", fmt.Sprintf("%s shows the load for %v, and it ran for %.0f s: the CSV is of another run than the logs", table.path, seen, outs[0].seconds),
			"keep each run's files together, and leave this run out")
	}
}

func seconds(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }

// requests adds what the load generators said.
func (r *sequenceRun) requests(t *Trial, outs []*output) error {
	if len(outs) == 0 {
		t.warn("logs-missing", "the run has no log of a load generator: how many requests there were is not known", "restore the logs beside the CSV")
		return nil
	}
	if err := t.take(outs); err != nil {
		return err
	}
	l := t.Record.Load
	l.AskedRate = float64(r.rate)
	if len(t.Record.Phases) > 0 {
		l.Start = t.Record.Phases[0].Start
		l.End = l.Start.Add(seconds(l.MeasureSeconds))
	}
	return nil
}
