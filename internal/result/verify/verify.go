// Package verify checks a results directory: that no file was changed after its
// trial, and that counts made apart from one another agree.
package verify

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"runtime"

	"aead.dev/minisign"
	"golang.org/x/sync/errgroup"

	"github.com/tare-mesh/tare/internal/base/routine"
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
	Signed   *Signer   `json:"signed,omitempty"`
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
	for _, f := range r.Findings {
		if f.Severity == Problem {
			n++
		}
	}
	return n
}

// Options of [Dir].
type Options struct {
	// Expand makes the plan of an experiment file again. The error is the reason why it
	// cannot be made here.
	Expand func(experimentFile string) (*plan.Plan, error)
	// Key verifies the signature. Nil means that the signature is not checked.
	Key *minisign.PublicKey
	// Tare is the version that Expand is of: another may make another plan.
	Tare string
}

// findings collects what was found about one part of the directory.
type findings struct {
	list  []Finding
	files int
}

// Dir verifies the results directory at path. The error is of a directory that cannot be
// opened at all.
func Dir(path string, o Options) (*Result, error) {
	d, err := result.Open(path)
	if damaged, ok := errors.AsType[*result.Error](err); ok && damaged.Op == "read" {
		// Nothing else can be checked without it.
		return &Result{Schema: Schema, Dir: path, Findings: []Finding{{Problem, filepath.Base(damaged.Path), damaged.Err.Error()}}}, nil
	}
	if err != nil {
		return nil, err
	}
	defer d.Close()
	p := d.Plan()
	r := &Result{Schema: Schema, Dir: path, Planned: len(p.Trials), Findings: []Finding{}}
	var whole findings
	whole.links(d)
	r.Signed = whole.signature(d, o.Key)
	whole.own(d)
	whole.experiment(d)
	whole.plan(d, o)
	stopped := whole.stopped(d)
	for _, t := range p.Trials {
		if stopped == 0 || t.Block <= stopped {
			r.Due++
		}
	}
	whole.unplanned(d)
	parts := make([]findings, len(p.Trials))
	recorded := make([]bool, len(p.Trials))
	var group errgroup.Group
	group.SetLimit(runtime.GOMAXPROCS(0))
	for i, t := range p.Trials {
		group.Go(routine.Guarded(func() error {
			recorded[i] = parts[i].trial(d, t, stopped)
			return nil
		}))
	}
	_ = group.Wait() // the findings are the errors
	for i, f := range append([]findings{whole}, parts...) {
		r.Findings = append(r.Findings, f.list...)
		r.Files += f.files
		if i > 0 && recorded[i-1] {
			r.Recorded++
		}
	}
	return r, nil
}

// links finds links in place of files and directories: their targets may change after a signature.
func (f *findings) links(d *result.Dir) {
	root, err := filepath.EvalSymlinks(d.Path())
	if err == nil {
		err = filepath.WalkDir(root, func(path string, e fs.DirEntry, err error) error {
			if err == nil && e.Type()&fs.ModeSymlink != 0 {
				name, _ := filepath.Rel(root, path)
				f.problem(filepath.ToSlash(name), "it is a symbolic link, whose target can change: copy the file here")
			}
			return err
		})
	}
	if err != nil {
		f.problem(".", reason(err))
	}
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
	entries, err := os.ReadDir(filepath.Join(d.Path(), result.TrialsDir))
	if err != nil {
		f.problem(result.TrialsDir, err.Error())
		return
	}
	planned := map[string]bool{}
	for _, t := range d.Plan().Trials {
		planned[t.ID] = true
	}
	for _, e := range entries {
		name := path.Join(result.TrialsDir, e.Name())
		switch {
		case planned[e.Name()]:
		case filepath.Ext(e.Name()) == result.PartialSuffix:
			f.note(name, "files of an interrupted attempt, which no report reads")
		default:
			f.problem(name, "it is not in "+result.PlanFile)
		}
	}
}

// trial verifies one trial and reports whether it has a record.
func (f *findings) trial(d *result.Dir, t plan.Trial, stopped int) bool {
	in := func(name string) string { return path.Join(result.TrialsDir, t.ID, name) }
	r, sum, err := d.Record(t)
	if errors.Is(err, fs.ErrNotExist) {
		if stopped == 0 || t.Block <= stopped {
			f.note(path.Join(result.TrialsDir, t.ID), "the trial has no record: it has not run, was interrupted, or is running")
		}
		return false
	}
	if err != nil {
		f.problem(in(result.RecordFile), reason(err))
		return true
	}
	if stopped > 0 && t.Block > stopped {
		f.problem(in(result.RecordFile), "the run ended before this block")
	}
	f.digests(d, &r, sum)
	for _, refuted := range r.Refutations(d.TrialFile(t.ID, result.SlicesFile)) {
		f.problem(in(refuted.File), refuted.Message)
	}
	for _, message := range r.Regressions() {
		f.problem(in(result.RecordFile), message)
	}
	f.events(d, &r)
	f.latencies(d, &r)
	f.slices(d, &r)
	return true
}

// digests compares the trial's files with its manifest.
func (f *findings) digests(d *result.Dir, r *result.Record, record string) {
	in := func(name string) string { return path.Join(result.TrialsDir, r.ID, name) }
	m, err := d.Manifest(r.ID)
	switch {
	case err != nil:
		f.problem(in(result.ManifestFile), reason(err))
		return
	case m == nil && r.Manifested:
		f.problem(in(result.ManifestFile), "the record has a manifest, and it is missing")
		return
	case m == nil:
		f.note(in(result.ManifestFile), "the trial has none: a tare without manifests wrote it, and changes of its files cannot be found")
		return
	}
	listed := f.compare(d, in(""), m, "the trial", map[string]string{result.RecordFile: record})
	if !listed[result.RecordFile] {
		f.problem(in(result.ManifestFile), "it does not list "+result.RecordFile)
	}
	f.unlisted(d, r.ID, m, listed)
}

// compare compares the files of a manifest with their digests, and returns the names that it lists. dir is the directory
// of the manifest below the results directory, and of is what the files must not have changed since. read has the digests of
// files that were read before.
func (f *findings) compare(d *result.Dir, dir string, m *result.Manifest, of string, read map[string]string) (listed map[string]bool) {
	listed = map[string]bool{}
	for _, want := range m.Files {
		listed[want.Name] = true
		file := path.Join(dir, want.Name)
		if !filepath.IsLocal(filepath.FromSlash(want.Name)) {
			f.problem(path.Join(dir, result.ManifestFile), "it lists a file outside its directory")
			continue
		}
		f.files++
		got := want
		if sum, ok := read[want.Name]; ok {
			got.SHA256 = sum
		} else if now, err := result.Digest(d.Path(), file); err != nil {
			f.problem(file, cmp.Or(missing(err), reason(err)))
			continue
		} else {
			got.Bytes, got.SHA256 = now.Bytes, now.SHA256
		}
		if got != want {
			f.problem(file, "it was changed after "+of+": its SHA-256 is not that of "+result.ManifestFile)
		}
	}
	return listed
}

func missing(err error) string {
	if errors.Is(err, fs.ErrNotExist) {
		return "it is missing, and " + result.ManifestFile + " lists it"
	}
	return ""
}

// unlisted finds files that the manifest does not have.
func (f *findings) unlisted(d *result.Dir, id string, m *result.Manifest, listed map[string]bool) {
	in := func(name string) string { return path.Join(result.TrialsDir, id, name) }
	signed := exists(d, result.SignatureFile)
	switch {
	case m.Complete:
	case signed:
		f.problem(in(result.ManifestFile), "it does not list every file of the trial, and so they are not signed: remove "+result.SignatureFile+" and sign again")
	default:
		f.note(in(result.ManifestFile), "tare ended before the deployment was removed: the digests of logs are missing")
	}
	names, err := d.Files(id)
	if err != nil {
		f.problem(path.Join(result.TrialsDir, id), err.Error())
		return
	}
	for _, name := range names {
		if !listed[name] && (m.Complete || result.Measured(name)) {
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
	_, err := os.Lstat(filepath.Join(d.Path(), filepath.FromSlash(name)))
	return err == nil
}

// reason is the message of an error without the file, which a finding has.
func reason(err error) string {
	var of *result.Error
	if !errors.As(err, &of) {
		return err.Error()
	}
	if of.Line > 0 {
		return fmt.Sprintf("line %d: %v", of.Line, of.Err)
	}
	return of.Err.Error()
}
