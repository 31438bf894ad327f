// Package debate reads and writes the files of the Great Sidecar Debate, a
// published comparison of service meshes: sequences of its benchmark become
// results directories, and results become sequences for its plot script.
package debate

import (
	"cmp"
	_ "embed"
	"errors"
	"fmt"
	"maps"
	"math"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/tare-mesh/tare/internal/base/hint"
	"github.com/tare-mesh/tare/internal/base/lists"
	"github.com/tare-mesh/tare/internal/base/routine"
	"github.com/tare-mesh/tare/internal/experiment"
	"github.com/tare-mesh/tare/internal/experiment/mesh"
	"github.com/tare-mesh/tare/internal/importer"
	"github.com/tare-mesh/tare/internal/metric"
	"github.com/tare-mesh/tare/internal/result"
	"github.com/tare-mesh/tare/internal/show/report"
)

// name is the name of the source, the format and the attribution.
const name = "great-sidecar-debate"

func Source() importer.Source {
	return importer.Source{Name: name, Doc: "sequences of the Great Sidecar Debate: {rate}-{run}-metrics.csv with wrk2 or oha logs", Read: read}
}

// Format exports results as sequences.
func Format() report.Format {
	return report.Format{Name: name, Doc: "a directory in that project's layout, for its plot script", Export: export}
}

//go:embed attribution.yaml
var attribution []byte

// Attribution assigns tasks to planes as the study does. It panics if the embedded file is invalid. Every command reads it
// for its help.
var Attribution = sync.OnceValue(func() mesh.Attribution {
	a, err := mesh.DecodeAttribution("attribution.yaml", attribution)
	if err != nil {
		panic(err)
	}
	return a
})

// runFile matches {rate}-{run}-metrics.csv and
// {rate}-{run}-{generator}[-{pod}].log.
var runFile = regexp.MustCompile(`^(\d+)-(\d+)-(?:(metrics\.csv)|(wrk2|oha)(?:-[A-Za-z0-9]+)*\.log)$`)

// exportedLog ends the name of a log that tare exported. An export has the measure phase alone, and no component of a mesh.
const exportedLog = "-wrk2-tare0.log"

func isExported(files []string) bool {
	return slices.ContainsFunc(files, func(f string) bool { return strings.HasSuffix(f, exportedLog) })
}

type sequenceRun struct {
	dir  string
	mesh string
	rate int
	run  int
	csv  string
	logs []string
}

// read reads sequences of the debate: directories, or files as a shell expands them.
func read(paths []string, o importer.Options) (*importer.Study, error) {
	s := &importer.Study{Source: name, Name: name,
		Description: "Imported: sequences of the Great Sidecar Debate's benchmark."}
	runs, err := listRuns(s, paths, o)
	if err != nil {
		return nil, err
	}
	s.Trials = make([]importer.Trial, len(runs))
	o = o.KeepOriginals()
	var group errgroup.Group
	group.SetLimit(runtime.GOMAXPROCS(0))
	for i := range runs {
		group.Go(routine.Guarded(func() error {
			s.Trials[i] = runs[i].trial(o)
			return nil
		}))
	}
	_ = group.Wait() // errors of a run are in its trial
	slices.SortStableFunc(s.Trials, func(a, b importer.Trial) int { return a.Record.Started.Compare(b.Record.Started) })
	crossCheck(s)
	return s, nil
}

func listRuns(s *importer.Study, paths []string, o importer.Options) ([]*sequenceRun, error) {
	files, err := s.ListFiles(paths, "ERROR") // as the study's own script
	if err != nil {
		return nil, err
	}
	meshes := importer.MeshesOf(lists.Map(files, filepath.Dir))
	byKey := map[string]*sequenceRun{}
	var runs []*sequenceRun
	for _, path := range files {
		m := runFile.FindStringSubmatch(filepath.Base(path))
		if m == nil {
			s.Skipped = append(s.Skipped, path+": not a file of a sequence")
			continue
		}
		rate, err1 := strconv.Atoi(m[1])
		run, err2 := strconv.Atoi(m[2])
		if err := errors.Join(err1, err2); err != nil || rate == 0 {
			return nil, &importer.FileError{Path: path, Hinted: hint.Hinted{Err: fmt.Errorf("%s is not a rate and a run", m[1]+"-"+m[2])}}
		}
		dir := filepath.Dir(path)
		key := fmt.Sprintf("%s\x00%d\x00%d", dir, rate, run)
		r := byKey[key]
		if r == nil {
			r = &sequenceRun{dir: dir, mesh: cmp.Or(o.Mesh, meshes[dir]), rate: rate, run: run}
			byKey[key], runs = r, append(runs, r)
			s.Meshes = lists.Add(s.Meshes, r.mesh)
		}
		if m[3] != "" {
			r.csv = path
		} else {
			r.logs = append(r.logs, path)
		}
	}
	if len(runs) == 0 {
		return nil, &importer.FileError{Path: strings.Join(paths, ", "), Hinted: hint.Hinted{Err: errors.New("no file of a sequence found"), Text: "name directories such as V1/Data/linkerd or OUT/linkerd-00, with files such as 60-1-metrics.csv"}}
	}
	slices.SortStableFunc(runs, func(a, b *sequenceRun) int {
		return cmp.Or(cmp.Compare(slices.Index(s.Meshes, a.mesh), slices.Index(s.Meshes, b.mesh)), cmp.Compare(a.rate, b.rate), cmp.Compare(a.dir, b.dir), cmp.Compare(a.run, b.run))
	})
	return runs, nil
}

// trial reads the files of one run.
func (r *sequenceRun) trial(o importer.Options) importer.Trial {
	t := importer.Trial{Mesh: r.mesh, Rate: experiment.Rate(r.rate), RateKnown: true, RateNamed: true, Run: fmt.Sprintf("%s/%d-%d", r.dir, r.rate, r.run)}
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
		t.Fail(err)
	}
	return t
}

// outputs reads the logs of the run's load generators.
func (r *sequenceRun) outputs(t *importer.Trial, o importer.Options) ([]*importer.Output, error) {
	var outs []*importer.Output
	for _, path := range r.logs {
		b, err := t.Read(path, o)
		if err != nil {
			return nil, err
		}
		name := runFile.FindStringSubmatch(filepath.Base(path))[4]
		out, err := importer.ParseOutput(name, path, b, true) // the debate's job runs oha with --latency-correction
		if err != nil {
			return nil, err
		}
		out.Loop, out.Arrivals = "open", "constant" // both get a rate
		outs = append(outs, out)
	}
	return outs, nil
}

// resources reads the run's metrics and finds its measure phase.
func (r *sequenceRun) resources(t *importer.Trial, o importer.Options, outs []*importer.Output) error {
	if r.csv == "" {
		t.Warn("metrics-missing", "the run has no metrics CSV", "CPU and memory of this run are unknown", resourceMetrics...)
		return nil
	}
	b, err := t.Read(r.csv, o)
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
		t.Warn("unknown-columns", fmt.Sprintf("%s has unknown columns: %s", r.csv, strings.Join(strange, ", ")),
			"their figures are not imported; if they matter, report it with the file", resourceMetrics...)
	}
	sampled.Shorten()
	t.Record.Sampled = sampled
	phases(t, table, o, outs)
	return nil
}

// resourceMetrics are the metrics that depend on the sampled figures.
var resourceMetrics = metric.Sampled()

// phases cuts warm-up and tail off the time in which the load generator was
// seen: by time, never by the figures.
func phases(t *importer.Trial, table *table, o importer.Options, outs []*importer.Output) {
	rows := table.rows
	first, last := table.loaded()
	if first < 0 {
		t.Warn("load-unseen", "no row of "+table.path+" shows the load generator: warm-up and tail are cut from the ends of the file", "", resourceMetrics...)
		first, last = 0, len(rows)-1
	}
	if isExported(t.Files) && o.Warmup == 0 && o.Tail == 0 {
		o.Warmup, o.Tail = -1, -1
	}
	warmup, tail := o.Cuts()
	start, end := rows[first].at, rows[last].at
	from, to := start.Add(warmup), end.Add(-tail)
	r := &t.Record
	r.Started, r.Ended = rows[0].at, rows[len(rows)-1].at
	if !from.Before(to) {
		t.Invalidate("too-short", fmt.Sprintf("%s shows the load for %v, and %v and %v are cut from its ends", table.path, end.Sub(start), warmup, tail),
			"import with a shorter --warmup and --tail")
		from, to = start, end
	}
	r.Phases = []result.Phase{{Name: "warmup", Start: start, End: from}, {Name: "measure", Start: from, End: to}, {Name: "drain", Start: to, End: r.Ended}}
	checkClock(t, table, first, last, outs)
}

// loaded returns the first and the last row in which the load generator was
// seen. -1 means never.
func (t *table) loaded() (first, last int) {
	first = -1
	columns := []int{t.columnOf("load", "mem"), t.columnOf("iperf", "mem")}
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

// checkClock detects a clock set forward, and a paused sampler.
func checkClock(t *importer.Trial, table *table, first, last int, outs []*importer.Output) {
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
		if len(outs) > 0 && seen > seconds(outs[0].Seconds)+3*usual+60*time.Second {
			t.Invalidate("clock-jumped", fmt.Sprintf("%s:%d: %v passed since the row before, and the load is visible for %v of the %.0f s it ran: the clock was set forward",
				table.path, rows[i].line, step, seen, outs[0].Seconds), "leave this run out")
			return
		}
		t.Warn("samples-missing", fmt.Sprintf("%s:%d: no sample for %v", table.path, rows[i].line, step), "the figures of that time are missing from the average", resourceMetrics...)
		return
	}
	if len(outs) > 0 && seen > seconds(outs[0].Seconds)+3*usual+60*time.Second {
		t.Invalidate("other-run", fmt.Sprintf("%s shows the load for %v, and it ran for %.0f s: the CSV is of another run than the logs", table.path, seen, outs[0].Seconds),
			"keep each run's files together, and leave this run out")
	}
}

// requests adds the reports of the load generators.
func (r *sequenceRun) requests(t *importer.Trial, outs []*importer.Output) error {
	if len(outs) == 0 {
		t.Warn("logs-missing", "the run has no log of a load generator: the number of requests is unknown", "restore the logs beside the CSV")
		return nil
	}
	if err := t.Take(outs); err != nil {
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

func seconds(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }

// crossCheck compares the runs with their names and with one another: the
// content of a file in the wrong place does not show the mistake.
func crossCheck(s *importer.Study) {
	checkMeshes(s)
	s.CheckRates()
	checkSiblings(s)
	s.CheckOverlap()
}

// marks relate the mesh in a directory's name to its tasks in the metrics.
var marks = []struct {
	claim  string // part of the directory's name, in the order of the debate's script
	marker string
	is     func(mesh.Task) bool
}{
	{"ambient", "ztunnel", func(t mesh.Task) bool { return t.Role == "node-proxy" }},
	{"linkerd", "Linkerd's control plane", func(t mesh.Task) bool { return strings.HasPrefix(t.Pod, "linkerd-") }},
	{"istio", "istiod without ztunnel", func(t mesh.Task) bool { return t.Pod == "istiod" }},
}

// checkMeshes detects tasks of a mesh that is not the directory's.
func checkMeshes(s *importer.Study) {
	for i := range s.Trials {
		t := &s.Trials[i]
		if t.Record.Sampled == nil {
			continue
		}
		claimed, shown := -1, -1
		for k, m := range marks {
			if claimed < 0 && strings.Contains(t.Mesh, m.claim) {
				claimed = k
			}
			if shown < 0 && slices.ContainsFunc(t.Record.Sampled.Tasks, m.is) {
				shown = k
			}
		}
		found := "no mesh that is known"
		if shown >= 0 {
			found = marks[shown].marker
		}
		message := fmt.Sprintf("%s is in a directory for %s, and its metrics show %s: were two meshes swapped?", t.Files[0], t.Mesh, found)
		switch {
		case shown < 0 && isExported(t.Files): // no component of any mesh
			continue
		case claimed >= 0 && shown != claimed && !slices.ContainsFunc(t.Record.Sampled.Tasks, marks[claimed].is),
			claimed >= 0 && shown >= 0 && shown < claimed && marks[claimed].claim == "istio":
		case slices.Contains([]string{"unmeshed", "no-mesh", "none"}, t.Mesh) && shown >= 0:
			message = fmt.Sprintf("%s is in a directory for no mesh, and its metrics show %s", t.Files[0], found)
		default:
			continue
		}
		t.Invalidate("other-mesh", message, "move the files to where they belong, or rename the directory")
	}
}

// checkSiblings compares the application's CPU with its CPU beside the same mesh at the
// same rate. A CSV does not contain its rate, but its figures show it.
func checkSiblings(s *importer.Study) {
	type key struct {
		mesh string
		rate float64
	}
	byRate := map[key][]float64{}
	used := make([]float64, len(s.Trials))
	for i := range s.Trials {
		t := &s.Trials[i]
		used[i] = applicationCores(t)
		if used[i] > 0 && t.Record.Valid {
			k := key{t.Mesh, float64(t.Rate)}
			byRate[k] = append(byRate[k], used[i])
		}
	}
	for i := range s.Trials {
		t := &s.Trials[i]
		own := key{t.Mesh, float64(t.Rate)}
		if !t.Record.Valid || used[i] <= 0 || len(byRate[own]) < 3 {
			continue
		}
		off := math.Abs(math.Log(used[i] / median(byRate[own])))
		if off < math.Log(1.4) {
			continue
		}
		for _, k := range slices.SortedFunc(maps.Keys(byRate), func(a, b key) int { return cmp.Compare(a.rate, b.rate) }) {
			if k.mesh != t.Mesh || k.rate == own.rate || math.Abs(math.Log(used[i]/median(byRate[k]))) > off/3 {
				continue
			}
			t.Invalidate("other-rate", fmt.Sprintf("%s: the application used %.3g cores, and %.3g in the other runs at %g requests/s: it looks like a run at %g",
				t.Files[0], used[i], median(byRate[own]), own.rate, k.rate), "move the files to where they belong, or leave this run out")
			break
		}
	}
}

// applicationCores returns the application's mean CPU over the measure phase, or
// 0 if unknown.
func applicationCores(t *importer.Trial) float64 {
	s := t.Record.Sampled
	if s == nil || len(t.Record.Phases) < 2 {
		return 0
	}
	phase := t.Record.Phases[1]
	total, n := 0.0, 0
	for _, r := range s.Expanded() {
		if r.At.Before(phase.Start) || r.At.After(phase.End) {
			continue
		}
		n++
		for k, task := range s.Tasks {
			if task.Plane == metric.App && r.Cores[k] != nil {
				total += *r.Cores[k]
			}
		}
	}
	return total / max(1, float64(n))
}

func median(v []float64) float64 {
	v = slices.Sorted(slices.Values(v))
	return (v[(len(v)-1)/2] + v[len(v)/2]) / 2
}
