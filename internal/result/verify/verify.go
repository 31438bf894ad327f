// Package verify checks a results directory: that no file was changed after its
// trial, and that counts made apart from one another agree.
package verify

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path"
	"path/filepath"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/tare-mesh/tare/internal/base/lists"
	"github.com/tare-mesh/tare/internal/base/regular"
	"github.com/tare-mesh/tare/internal/base/routine"
	"github.com/tare-mesh/tare/internal/experiment"
	"github.com/tare-mesh/tare/internal/experiment/plan"
	"github.com/tare-mesh/tare/internal/result"
)

// Schema of a [Result] as JSON.
const Schema = "tare.verify/v1"

// Result is the outcome of verifying one directory.
type Result struct {
	Schema   string    `json:"schema"`
	Dir      string    `json:"dir"`
	Planned  int       `json:"planned"`  // trials of the plan
	Due      int       `json:"due"`      // of them without the blocks that an ended run did not need
	Recorded int       `json:"recorded"` // trials with a record
	Files    int       `json:"files"`    // whose digests were compared
	Findings []Finding `json:"findings"`
}

// Severity of a finding.
type Severity string

const (
	// Problem: the directory is not as tare wrote it.
	Problem Severity = "problem"
	// Note: something could not be checked, or is unfinished.
	Note Severity = "note"
)

// Finding is one thing that verification found.
type Finding struct {
	Severity Severity `json:"severity"`
	File     string   `json:"file"` // within the directory, with slashes
	Message  string   `json:"message"`
}

// Problems is the number of findings that are problems.
func (r *Result) Problems() (n int) {
	return lists.Count(r.Findings, func(f Finding) bool { return f.Severity == Problem })
}

// Options of [Dir].
type Options struct {
	// Expand makes the plan of an experiment file again. The error is the reason why it
	// cannot be made here.
	Expand func(experimentFile string) (*plan.Plan, error)
	// Judge makes the validity checks of a trial again that rest on its record, its slices and the median of its response
	// times. It returns the codes of the checks that were made, and the warnings found. Nil makes none.
	Judge func(experimentFile string) (Judge, error)
	// Tare is the version that Expand is of: another may make another plan.
	Tare string
}

// Judge is a function that judges the trials of one experiment.
type Judge func(r *result.Record, rows []result.Slice, p50 time.Duration) (checked []string, found []result.Warning)

// findings collects what was found about one part of the directory.
type findings struct {
	list    []Finding
	files   int
	judge   Judge
	of      *experiment.Experiment // nil if unknown
	foreign bool                   // the run is of another version of tare
	rows    []result.Slice         // of a trial, while it is verified
	unread  error                  // the reason why its slices are unknown
}

// Dir verifies the results directory at path. The error is of a directory that cannot be
// opened at all.
func Dir(path string, o Options) (*Result, error) {
	d, err := result.Open(path)
	if damaged, ok := errors.AsType[*result.Error](err); ok && damaged.Op == "read" {
		// Nothing else can be checked without it.
		return &Result{Schema: Schema, Dir: path, Findings: []Finding{{Problem, filepath.Base(damaged.Path), reason(err)}}}, nil
	}
	if err != nil {
		return nil, err
	}
	defer d.Close()
	p := d.Plan()
	r := &Result{Schema: Schema, Dir: path, Planned: len(p.Trials), Findings: []Finding{}}
	var whole findings
	l := whole.own(d)
	whole.experiment(d)
	whole.plan(d, o)
	stopped := whole.stopped(d)
	for _, t := range p.Trials {
		if stopped == 0 || t.Block <= stopped {
			r.Due++
		}
	}
	whole.unplanned(d)
	judge, of, foreign := Judge(nil), (*experiment.Experiment)(nil), d.Environment().Tare != o.Tare
	if file := filepath.Join(d.Path(), result.ExperimentFile); d.Environment().Platform != imported {
		of, _ = experiment.ReadRecord(file) // [findings.plan] has a note of the error
		if o.Judge != nil {
			judge, _ = o.Judge(file)
		}
	}
	parts := make([]findings, len(p.Trials))
	recorded := make([]bool, len(p.Trials))
	var group errgroup.Group
	group.SetLimit(runtime.GOMAXPROCS(0))
	for i, t := range p.Trials {
		group.Go(routine.Guarded(func() error {
			parts[i].judge, parts[i].of, parts[i].foreign = judge, of, foreign
			recorded[i] = parts[i].trial(d, t, stopped, l)
			return nil
		}))
	}
	_ = group.Wait() // the findings are the errors
	for i, f := range append([]findings{whole}, parts...) {
		for _, found := range f.list {
			if !slices.Contains(r.Findings, found) { // of a file that several checks read
				r.Findings = append(r.Findings, found)
			}
		}
		r.Files += f.files
		if i > 0 && recorded[i-1] {
			r.Recorded++
		}
	}
	return r, nil
}

// experiment compares the experiment file with the digest that the run began with.
func (f *findings) experiment(d *result.Dir) {
	want := d.Environment().ExperimentSHA256
	if want == "" {
		f.note(result.EnvironmentFile, "it has no digest of "+result.ExperimentFile)
		return
	}
	f.files++
	sum := sha256.Sum256(d.Experiment())
	if hex.EncodeToString(sum[:]) != want {
		f.problem(result.ExperimentFile, "it was changed after the run began: its SHA-256 is not that of "+result.EnvironmentFile)
	}
}

// stopped returns the last block of a run that ended early, or 0.
func (f *findings) stopped(d *result.Dir) int {
	s, err := d.Stopped()
	switch {
	case err != nil:
		f.problem(result.StoppedFile, reason(err))
	case s != nil && (s.Block < 1 || s.Block > d.Plan().Blocks):
		f.problem(result.StoppedFile, "the run ended after a block that the plan does not have")
	case s != nil:
		return s.Block
	}
	return 0
}

// unplanned finds directories that are not of the plan's trials.
func (f *findings) unplanned(d *result.Dir) {
	entries, err := regular.ReadDir(filepath.Join(d.Path(), result.TrialsDir))
	if err != nil {
		f.problem(result.TrialsDir, reason(err))
		return
	}
	planned := lists.Set(d.Plan().Trials, func(t plan.Trial) string { return t.ID })
	for _, e := range entries {
		name := path.Join(result.TrialsDir, e.Name())
		switch {
		case planned[e.Name()]:
		case planned[strings.TrimSuffix(e.Name(), result.PartialSuffix)]:
			f.note(name, "files of an interrupted attempt, which no report reads")
		default:
			f.problem(name, "it is not in "+result.PlanFile)
		}
	}
}

// trial verifies one trial and reports whether it has a record.
func (f *findings) trial(d *result.Dir, t plan.Trial, stopped int, l list) bool {
	in := func(name string) string { return path.Join(result.TrialsDir, t.ID, name) }
	r, sum, err := d.Record(t)
	if errors.Is(err, fs.ErrNotExist) {
		f.unrecorded(d, t, l, stopped == 0 || t.Block <= stopped)
		return false
	}
	if err != nil {
		f.problem(in(result.RecordFile), reason(err))
		return true
	}
	if stopped > 0 && t.Block > stopped {
		f.problem(in(result.RecordFile), "the run ended before this block")
	}
	f.digests(d, &r, sum, l)
	if r.Error == "" && r.Load != nil && r.Load.Slices != nil {
		f.rows, f.unread = result.ReadSlices(d.TrialFile(t.ID, result.SlicesFile))
	}
	for _, refuted := range result.Refuted(d, &r, f.rows, f.unread == nil) {
		f.problem(in(refuted.File), refuted.Message)
	}
	for _, message := range r.Regressions() {
		f.problem(in(result.RecordFile), message)
	}
	f.events(d, &r)
	f.latencies(d, &r)
	if f.unread != nil {
		f.problem(in(result.SlicesFile), f.unread.Error())
	}
	f.rows = nil // the findings of all trials are in memory
	return true
}

// digests compares the trial's files with its manifest.
func (f *findings) digests(d *result.Dir, r *result.Record, record string, l list) {
	in := func(name string) string { return path.Join(result.TrialsDir, r.ID, name) }
	m, err := d.Manifest(r.ID)
	switch {
	case err != nil:
		f.problem(in(result.ManifestFile), reason(err))
		return
	case m != nil && !r.Manifested:
		f.problem(in(result.RecordFile), "it has no mark of its "+result.ManifestFile)
	case m == nil && r.Manifested:
		f.problem(in(result.ManifestFile), "the record has a manifest, and it is missing")
		return
	case m == nil:
		f.note(in(result.ManifestFile), "the trial has none: a tare without manifests wrote it, and changes of its files cannot be found")
		return
	}
	listed := f.compare(d, in(""), m, record, l)
	if !listed[result.RecordFile] {
		f.problem(in(result.ManifestFile), "it does not list "+result.RecordFile)
	}
	f.unlisted(d, r.ID, m, listed, l)
}

// compare compares the files of a trial's manifest with their digests, and returns the names that it lists. dir is the
// directory of the trial, and record the digest of its record. A file with a finding of the directory's list gets no second one.
func (f *findings) compare(d *result.Dir, dir string, m *result.Manifest, record string, l list) (listed map[string]bool) {
	listed = map[string]bool{}
	for _, want := range m.Files {
		listed[want.Name] = true
		file := path.Join(dir, want.Name)
		if !filepath.IsLocal(filepath.FromSlash(want.Name)) {
			f.problem(path.Join(dir, result.ManifestFile), "it lists a file outside its directory")
			continue
		}
		sum, read := l.now[file]
		if want.Name == result.RecordFile {
			sum, read = record, true
		}
		if !read {
			if l.Own != nil && l.Sums[file] != "" {
				continue
			}
			now, err := result.Digest(d.Path(), file)
			if err != nil {
				f.problem(file, unread(err, result.ManifestFile))
				continue
			}
			f.files++
			sum = now.SHA256
		}
		if sum != want.SHA256 && (l.Own == nil || l.Sums[file] == "" || l.Sums[file] == sum) {
			f.problem(file, "it was changed after the trial: its SHA-256 is not that of "+result.ManifestFile)
		}
	}
	return listed
}

// unrecorded judges a trial without a record. Tare writes the manifest of a trial before the record, and the manifest of
// all of its files after it.
func (f *findings) unrecorded(d *result.Dir, t plan.Trial, l list, due bool) {
	file := path.Join(result.TrialsDir, t.ID, result.RecordFile)
	if l.Own != nil && l.Sums[file] != "" {
		return // its list has the finding
	}
	m, err := d.Manifest(t.ID)
	switch {
	case err != nil:
		f.problem(path.Join(result.TrialsDir, t.ID, result.ManifestFile), reason(err))
	case m != nil && (m.Complete || l.Own != nil && l.Sums[path.Join(result.TrialsDir, t.ID, result.ManifestFile)] != ""):
		f.problem(file, "it is missing, and "+result.ManifestFile+" lists it")
	case due:
		f.note(path.Join(result.TrialsDir, t.ID), "the trial has no record: it has not run, was interrupted, or is running")
	}
}

// unlisted finds files that the manifest does not have. Those that the directory's list lacks have its finding.
func (f *findings) unlisted(d *result.Dir, id string, m *result.Manifest, listed map[string]bool, l list) {
	in := func(name string) string { return path.Join(result.TrialsDir, id, name) }
	if !m.Complete {
		f.note(in(result.ManifestFile), "tare ended before the deployment was removed: the digests of logs are missing")
	}
	names, err := d.Files(id)
	if err != nil {
		f.problem(path.Join(result.TrialsDir, id), err.Error())
		return
	}
	for _, name := range names {
		if !listed[name] && (m.Complete || result.Measured(name)) && (l.Own == nil || !l.Whole || l.Sums[in(name)] != "") {
			f.problem(in(name), "it is not in "+result.ManifestFile)
		}
	}
}

func (f *findings) problem(file, message string) {
	f.list = append(f.list, Finding{Problem, file, message})
}

func (f *findings) note(file, message string) {
	f.list = append(f.list, Finding{Note, file, message})
}

func exists(d *result.Dir, name string) bool {
	_, err := regular.Lstat(filepath.Join(d.Path(), filepath.FromSlash(name)))
	return err == nil
}

// unread is the message of a listed file that cannot be read.
func unread(err error, list string) string {
	if errors.Is(err, fs.ErrNotExist) {
		return "it is missing, and " + list + " lists it"
	}
	return reason(err)
}

const linked = "it is a symbolic link, which is not followed: copy its target to its place if it is of this run"

// reason is the message of an error without the file, which a finding has.
func reason(err error) string {
	if errors.Is(err, regular.ErrLink) {
		return linked
	}
	var of *result.Error
	if !errors.As(err, &of) {
		return err.Error()
	}
	if of.Line > 0 {
		return fmt.Sprintf("line %d: %v", of.Line, of.Err)
	}
	return of.Err.Error()
}

// plan compares the plan with the plan of the experiment file: the same file and seed
// give the same plan.
func (f *findings) plan(d *result.Dir, o Options) {
	kept := d.Plan()
	f.identifiers(&kept)
	if d.Environment().Platform == imported {
		return // its experiment file describes the import
	}
	made, err := o.Expand(filepath.Join(d.Path(), result.ExperimentFile))
	if err != nil {
		f.note(result.PlanFile, "not compared with "+result.ExperimentFile+", from which this tare cannot make a plan: "+err.Error())
		return
	}
	differ, err := differences(&kept, made)
	switch {
	case err != nil:
		f.problem(result.PlanFile, err.Error())
	case len(differ) > 0 && d.Environment().Tare != o.Tare:
		f.note(result.PlanFile, fmt.Sprintf("it is of tare %s, and tare %s makes another of %s: %s", d.Environment().Tare, o.Tare, result.ExperimentFile, strings.Join(differ, ", ")))
	case len(differ) > 0:
		f.problem(result.PlanFile, fmt.Sprintf("it is not the plan of %s: %s", result.ExperimentFile, strings.Join(differ, ", ")))
	}
}

// imported is the platform of imports.
const imported = "import"

// identifiers checks that trials refer to treatments and blocks of the plan.
func (f *findings) identifiers(p *plan.Plan) {
	known := map[string]bool{}
	for _, t := range p.Treatments {
		if known[t.ID] {
			f.problem(result.PlanFile, fmt.Sprintf("treatment %.80q is in it twice", t.ID))
		}
		known[t.ID] = true
	}
	for _, t := range p.Treatments {
		if t.Baseline != "" && !known[t.Baseline] {
			f.problem(result.PlanFile, fmt.Sprintf("the baseline of treatment %.80q is not among the treatments", t.ID))
		}
	}
	for _, t := range p.Trials {
		if !known[t.Treatment] || t.Block < 1 || t.Block > p.Blocks {
			f.problem(result.PlanFile, fmt.Sprintf("trial %.80q is of block %d and treatment %.80q, which the plan does not have", t.ID, t.Block, t.Treatment))
		}
	}
}

// estimated are the fields that depend on generators and platform, not on the file alone.
var estimated = []string{"trialTime", "expected", "meshChanges"}

// differences lists the fields of plan.json in which two plans differ.
func differences(a, b *plan.Plan) ([]string, error) {
	x, err := fields(a)
	if err != nil {
		return nil, err
	}
	y, err := fields(b)
	if err != nil {
		return nil, err
	}
	both := maps.Clone(x)
	maps.Copy(both, y)
	return lists.Where(slices.Sorted(maps.Keys(both)), func(name string) bool {
		return !slices.Contains(estimated, name) && !reflect.DeepEqual(x[name], y[name])
	}), nil
}

// fields is a plan as its JSON has it.
func fields(p *plan.Plan) (map[string]any, error) {
	b, err := json.Marshal(p)
	if err != nil {
		return nil, err
	}
	var m map[string]any
	return m, json.Unmarshal(b, &m)
}
