package serve

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"net/http"
	"net/url"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/tare-mesh/tare/internal/answer"
	"github.com/tare-mesh/tare/internal/base/hint"
	"github.com/tare-mesh/tare/internal/base/lists"
	"github.com/tare-mesh/tare/internal/base/printable"
	"github.com/tare-mesh/tare/internal/base/regular"
	"github.com/tare-mesh/tare/internal/base/routine"
	"github.com/tare-mesh/tare/internal/compare"
	"github.com/tare-mesh/tare/internal/experiment"
	"github.com/tare-mesh/tare/internal/result"
	"github.com/tare-mesh/tare/internal/show/live"
	"github.com/tare-mesh/tare/internal/show/report"
)

// row is a run in the list.
type row struct {
	run
	summary
	Link, LiveLink string
	Complete       bool // the summary is made
	Ended          bool
	Good           bool   // every trial is used, and every gate holds
	State          string // in one word
	Verdict        string
	History        string // points of a sparkline, empty with fewer than two runs
	HistoryWords   string
}

// listing is the input of the list's page.
type listing struct {
	Rows             []row
	All              int
	Pending          int
	Meshes, Machines []string
	Query            filter
}

// filter is a search of the reader.
type filter struct{ Text, Mesh, Machine string }

func (f filter) keeps(r row) bool {
	if f.Mesh != "" && !slices.Contains(r.Meshes, f.Mesh) || f.Machine != "" && r.Machine != f.Machine {
		return false
	}
	text := strings.ToLower(strings.Join([]string{r.ID, r.Experiment, r.Machine, r.Answer, strings.Join(r.Meshes, " ")}, " "))
	for word := range strings.FieldsSeq(strings.ToLower(f.Text)) {
		if !strings.Contains(text, word) {
			return false
		}
	}
	return true
}

func (s *Server) list(w http.ResponseWriter, r *http.Request) error {
	runs, err := s.index.runs()
	if err != nil {
		return err
	}
	q := r.URL.Query()
	l := listing{All: len(runs), Query: filter{strings.TrimSpace(q.Get("q")), q.Get("mesh"), q.Get("machine")}}
	meshes, machines := map[string]bool{}, map[string]bool{}
	var rows []row
	for _, of := range runs {
		x := s.row(of)
		if !x.Complete {
			l.Pending++
		}
		for _, m := range x.Meshes {
			meshes[m] = true
		}
		machines[x.Machine] = true
		rows = append(rows, x)
	}
	slices.SortStableFunc(rows, func(a, b row) int { return b.Began.Compare(a.Began) }) // the newest first
	histories(rows)
	for _, x := range rows {
		if l.Query.keeps(x) {
			l.Rows = append(l.Rows, x)
		}
	}
	delete(machines, "")
	l.Meshes, l.Machines = slices.Sorted(maps.Keys(meshes)), slices.Sorted(maps.Keys(machines))
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	return layouts.ExecuteTemplate(w, "list.html", l)
}

// States of a run. Finished is one with every trial of its plan.
const (
	running     = "running"
	interrupted = "interrupted"
	finished    = "finished"
)

func (s *Server) row(of run) row {
	sum, complete, ended := s.summaries.summaryOf(of)
	link := (&url.URL{Path: of.ID}).EscapedPath()
	x := row{run: of, summary: sum, Link: "/run/" + link, LiveLink: "/live/" + link, Complete: complete, Ended: ended}
	switch x.State = finished; {
	case !ended && result.Writing(of.root.Root, of.name):
		x.State = running
	case !ended, sum.Missing > 0:
		x.State = interrupted
	}
	switch {
	case sum.Error != "":
		x.State = "unreadable"
		x.Verdict = "cannot be read: " + sum.Error
	case !ended:
		x.Verdict = map[string]string{running: "more trials follow", interrupted: "tare run --resume continues it"}[x.State]
	case !complete:
		x.Verdict = "…"
	case sum.Used == sum.Planned:
		x.Good, x.Verdict = sum.Decided == "" || sum.Decided == compare.Holds, "all "+printable.Counted(sum.Planned, "trial")+" valid"
	default:
		x.Verdict = fmt.Sprintf("%d of %s used", sum.Used, printable.Counted(sum.Planned, "trial"))
	}
	if x.Complete && x.Ended && sum.Gates != "" {
		x.Verdict = sum.Gates + "; " + x.Verdict
	}
	if x.Complete && x.Ended && sum.Warnings > 0 {
		x.Verdict += ", " + printable.Counted(sum.Warnings, "warning")
	}
	return x
}

const (
	sparkWidth, sparkHeight = 96.0, 20.0
	mostHistory             = 30 // runs in a sparkline
)

// histories adds to each row the headline of the runs of the same experiment on the same machine, up to
// this run. rows are sorted, newest first.
func histories(rows []row) {
	type series struct{ experiment, machine, metric string }
	soFar := map[series][]float64{}
	for i := len(rows) - 1; i >= 0; i-- {
		x := &rows[i]
		if x.Headline == nil {
			continue
		}
		of := series{x.Experiment, x.Machine, x.Metric}
		soFar[of] = append(soFar[of], *x.Headline)
		if values := soFar[of]; len(values) > 1 {
			values = values[max(0, len(values)-mostHistory):]
			x.History = sparkline(values)
			x.HistoryWords = fmt.Sprintf("%s, %s: %.4g to %.4g %s", x.Metric, printable.Counted(len(values), "run"), values[0], values[len(values)-1], x.Unit)
		}
	}
}

// sparkline are the points of a polyline, from zero at the bottom where all are positive.
func sparkline(values []float64) string {
	low, high := min(0, slices.Min(values)), max(0, slices.Max(values))
	if high == low {
		high = low + 1
	}
	var points []string
	for i, v := range values {
		points = append(points, fmt.Sprintf("%.1f,%.1f", 1+float64(i)/float64(len(values)-1)*(sparkWidth-2), 1+(high-v)/(high-low)*(sparkHeight-2)))
	}
	return strings.Join(points, " ")
}

const (
	deepest     = 3     // levels below a directory given at which runs are found
	mostEntries = 50000 // of a scan
)

// index finds runs below the directories given. It opens them as roots: names that lead out of them
// fail, with `..` or by a link.
type index struct {
	roots    []root
	releases []func()
}

type root struct {
	*os.Root
	path   string
	prefix string // of identifiers, where several directories were given
}

// run is a results directory below a root.
type run struct {
	ID   string
	path string // for tare's own readers, after contained
	root root
	name string // within the root
}

func openIndex(dirs []string) (*index, error) {
	x := &index{}
	taken := map[string]bool{}
	for _, dir := range dirs {
		absolute, err := filepath.Abs(dir)
		if err != nil {
			return nil, err
		}
		opened, err := os.OpenRoot(absolute)
		if err != nil {
			return nil, errors.Join(hint.Wrap(err, "give the directory that tare run printed, or one with several of them"), x.close())
		}
		x.releases = append(x.releases, regular.Confine(opened))
		r := root{Root: opened, path: absolute}
		if len(dirs) > 1 {
			name := filepath.Base(absolute)
			for n := 2; taken[name]; n++ {
				name = fmt.Sprintf("%s-%d", filepath.Base(absolute), n)
			}
			taken[name], r.prefix = true, name
		}
		x.roots = append(x.roots, r)
	}
	return x, nil
}

func (x *index) close() error {
	for _, release := range x.releases {
		release()
	}
	errs := lists.Map(x.roots, func(r root) error { return r.Close() })
	return errors.Join(errs...)
}

// runs lists the results directories. Links are not followed.
func (x *index) runs() ([]run, error) {
	var all []run
	left := mostEntries
	for _, r := range x.roots {
		found, err := r.find(".", 0, &left)
		if err != nil {
			return nil, err
		}
		all = append(all, found...)
	}
	return all, nil
}

func (r root) find(dir string, depth int, left *int) ([]run, error) {
	if info, err := r.Lstat(path.Join(dir, result.PlanFile)); err == nil && info.Mode().IsRegular() {
		id := path.Join(r.prefix, dir)
		if id == "." {
			id = filepath.Base(r.path)
		}
		return []run{{ID: id, path: filepath.Join(r.path, filepath.FromSlash(dir)), root: r, name: dir}}, nil
	}
	if depth == deepest {
		return nil, nil
	}
	entries, err := fs.ReadDir(r.FS(), dir)
	if err != nil {
		if depth > 0 {
			return nil, nil // removed since, or not readable
		}
		return nil, fmt.Errorf("list %s: %w", r.path, err)
	}
	var all []run
	for _, e := range entries {
		if *left--; *left < 0 {
			return all, nil
		}
		if !e.IsDir() || strings.HasPrefix(e.Name(), ".") {
			continue
		}
		found, err := r.find(path.Join(dir, e.Name()), depth+1, left)
		if err != nil {
			return nil, err
		}
		all = append(all, found...)
	}
	return all, nil
}

// contained returns an error for a run with a link in it. A link that is made later is not followed out of the
// root either (regular.Confine).
func (r run) contained() error {
	return fs.WalkDir(r.root.FS(), r.name, func(name string, e fs.DirEntry, err error) error {
		switch {
		case errors.Is(err, fs.ErrNotExist):
			return nil // a run under way renames its files
		case err != nil:
			return err
		case e.Type()&fs.ModeSymlink != 0:
			return hint.New("copy the file itself into the results directory", "%s is a link, and links are not followed", name)
		}
		return nil
	})
}

// stamp identifies the content of the list of the directory's files, which has the digests of all others, without reading it. It is ""
// if there is none, because the run is under way or was killed.
func (r run) stamp() string {
	for _, list := range []string{result.SumsFile, result.ManifestFile} {
		if info, err := r.root.Lstat(path.Join(r.name, list)); err == nil && info.Mode().IsRegular() {
			return fmt.Sprintf("%s %d %d", r.path, info.Size(), info.ModTime().UnixNano())
		}
	}
	return ""
}

// summary is a run in the list. It is kept by the stamp of the run.
type summary struct {
	Experiment string
	Began      time.Time
	Machine    string
	Meshes     []string
	Planned    int
	Used       int
	Missing    int // trials that an interrupted run did not make
	Warnings   int
	Answer     string // the first sentence of the report
	Gates      string // their outcome in a sentence, empty without gates
	// Decided is the outcome of all gates together.
	Decided compare.Outcome
	// Headline is the difference of the first treatment that is compared, for the history.
	Metric   string
	Unit     string
	Headline *float64
	Error    string // the report could not be made
}

// summaries are made one at a time in the background.
type summaries struct {
	begun sync.WaitGroup
	turn  sync.Mutex // held while one is made

	mu     sync.Mutex
	closed bool
	made   map[string]*summary // by stamp, nil until it is made
	briefs map[string]summary  // by path and time of the plan
}

func newSummaries() *summaries {
	return &summaries{made: map[string]*summary{}, briefs: map[string]summary{}}
}

// close waits for the summary that is being made. It may be called again.
func (s *summaries) close() {
	s.mu.Lock()
	s.closed = true
	s.mu.Unlock()
	s.begun.Wait()
}

// summaryOf returns the summary of a run, as far as it is made.
func (s *summaries) summaryOf(r run) (_ summary, complete, ended bool) {
	stamp := r.stamp()
	if stamp == "" {
		return s.briefly(r), true, false
	}
	s.mu.Lock()
	found, begun := s.made[stamp]
	if !begun && !s.closed {
		s.made[stamp] = nil
		s.begun.Go(routine.Guarded(func() { s.add(stamp, r) }))
	}
	s.mu.Unlock()
	if found != nil {
		return *found, true, true
	}
	return s.briefly(r), false, true
}

// briefly reads the plan and the environment once.
func (s *summaries) briefly(r run) summary {
	info, err := r.root.Lstat(filepath.ToSlash(filepath.Join(r.name, result.PlanFile)))
	if err != nil {
		return summary{Error: err.Error()}
	}
	key := fmt.Sprintf("%s %d", r.path, info.ModTime().UnixNano())
	s.mu.Lock()
	found, ok := s.briefs[key]
	s.mu.Unlock()
	if ok {
		return found
	}
	made := summary{Experiment: r.ID}
	if err := r.contained(); err != nil {
		made.Error = err.Error()
	} else if d, err := result.Open(r.path); err != nil {
		made.Error = err.Error()
	} else {
		made = brief(d)
		_ = d.Close()
	}
	s.mu.Lock()
	s.briefs[key] = made
	s.mu.Unlock()
	return made
}

// add makes the summary of a run, unless the program ends.
func (s *summaries) add(stamp string, r run) {
	s.turn.Lock()
	defer s.turn.Unlock()
	s.mu.Lock()
	closed := s.closed
	s.mu.Unlock()
	if closed {
		return
	}
	sum := summary{Experiment: r.ID}
	if err := r.contained(); err != nil {
		sum.Error = err.Error()
	} else {
		sum = summarize(r.path)
	}
	s.mu.Lock()
	s.made[stamp] = &sum
	s.mu.Unlock()
}

// summarize analyses a run.
func summarize(path string) summary {
	d, err := result.Open(path)
	if err != nil {
		return summary{Error: err.Error()}
	}
	defer d.Close()
	s := brief(d)
	r, err := answer.Analyze(d, compare.Options{})
	if err != nil {
		s.Error = err.Error()
		return s
	}
	s.Used, s.Planned, s.Missing, s.Warnings = r.Count.Used, r.Count.Planned, r.Count.Missing, len(r.Warnings)
	h := live.HeadlineOf(r)
	if len(h.Answer) > 0 {
		s.Answer = h.Answer[0]
	}
	if len(r.Decisions) > 0 {
		s.Gates, s.Decided = report.OutcomesInWords(r.Decisions), r.Decided()
	}
	for _, t := range r.Treatments {
		if of, ok := h.Of[t.ID]; ok && !of.Control {
			s.Metric, s.Unit, s.Headline = h.Title, h.Unit, &of.Estimate
			break
		}
	}
	return s
}

// brief is the part that needs no analysis.
func brief(d *result.Dir) summary {
	e, p := d.Environment(), d.Plan()
	s := summary{Experiment: p.Experiment, Began: e.Time.UTC(), Planned: len(p.Trials)}
	cpus := printable.Counted(e.CPUs, "CPU")
	if e.CPUs == 0 { // an import
		cpus = "CPUs unknown"
	}
	s.Machine = strings.TrimPrefix(e.CPUModel+", "+cpus, ", ")
	if e.Platform != "" && e.Platform != "local" {
		s.Machine += ", " + e.Platform
	}
	meshes := map[string]bool{}
	for _, t := range p.Treatments {
		if t.Levels.Mesh != "" {
			meshes[t.Levels.Mesh] = true
		} else if m, ok := t.Factors[experiment.MeshFactor].(string); ok {
			meshes[m] = true
		}
	}
	s.Meshes = slices.Sorted(maps.Keys(meshes))
	return s
}
