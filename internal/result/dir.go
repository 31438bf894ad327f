package result

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/tare-mesh/tare/internal/base/hint"
	"github.com/tare-mesh/tare/internal/base/lists"
	"github.com/tare-mesh/tare/internal/base/regular"
	"github.com/tare-mesh/tare/internal/experiment/plan"
)

// PlanSchema is the schema of plan.json.
const PlanSchema = "tare.plan/v1"

// RunsDir is the directory below which runs have their results directories, unless another is named.
const RunsDir = "runs"

// Names within a results directory.
const (
	ExperimentFile  = "experiment.yaml"
	PlanFile        = "plan.json"
	EnvironmentFile = "environment.json"
	TrialsDir       = "trials"
	EventsFile      = "events.jsonl"
	LatencyFile     = "latency.hdr"
	MeasuredFile    = "latency-measure.hdr" // the measure window of LatencyFile, summed
	SlicesFile      = "slices.csv"          // of a trial in a round
	RecordFile      = "record.json"
	ManifestFile    = "manifest.json"
	StoppedFile     = "stopped.json"
	ProvenanceDir   = "provenance"
	OriginsFile     = "origins.json"  // of an import
	OriginalsFile   = "originals.tar" // of an import
	// PartialSuffix marks the directory of an unfinished trial that was begun again.
	PartialSuffix = ".partial"

	// LockFile exists while a tare writes to the directory.
	LockFile = ".lock"
)

// Dir is a results directory. Reading needs no lock: a run can be read while it
// runs. A Dir of [Create] or [Resume] holds the directory's lock until Close.
type Dir struct {
	path        string
	experiment  []byte
	plan        plan.Plan
	environment Environment
	held        *held // nil for reading
}

// Create creates the results directory of an experiment, and its parents. An
// existing directory must be empty. The plan is written last: a directory with a
// plan is complete except for its trials.
func Create(dir string, experiment []byte, p *plan.Plan, env Environment) (*Dir, error) {
	d, err := begin(dir, experiment, p, env)
	if err != nil {
		return nil, unbegun(dir, err)
	}
	if err := mustBeEmpty(dir); err != nil {
		return nil, errors.Join(err, d.Close())
	}
	if err := (opening{d}).fill(); err != nil {
		return nil, errors.Join(unbegun(dir, err), Discard(d))
	}
	return d, nil
}

// unbegun replaces the hint to resume, of a full disk: no run exists yet that could be resumed.
func unbegun(dir string, err error) error {
	if errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) {
		return &Error{Op: "create results directory", Path: dir, Hinted: hint.Hinted{Err: err, Text: "free space on its file system, then run the experiment again, or choose another directory with --out"}}
	}
	return err
}

// CheckEmpty returns an error if dir exists and is not empty, so that [Create] would refuse it.
func CheckEmpty(dir string) error {
	if _, err := os.Lstat(dir); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return mustBeEmpty(dir)
}

func mustBeEmpty(dir string) error {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return storage("read results directory", dir, err)
	}
	for _, e := range entries {
		if e.Name() != LockFile {
			return &Error{Op: "create results directory", Path: dir, Hinted: hint.Hinted{Err: errors.New("it is not empty"), Text: "choose another with --out, or continue the run in it with --resume " + dir}}
		}
	}
	return nil
}

// opening is a directory that is created, or that a run continues.
type opening struct{ dir *Dir }

func (d opening) fill() error {
	if err := d.refuseWords(); err != nil {
		return err
	}
	h := d.dir.held
	if err := h.Mkdir(TrialsDir, 0o755); err != nil {
		return storage("create results directory", d.dir.path, err)
	}
	if err := h.write(ExperimentFile, d.dir.experiment); err != nil {
		return err
	}
	if err := h.writeJSON(EnvironmentFile, d.dir.environment); err != nil {
		return err
	}
	return h.writeJSON(PlanFile, d.dir.plan)
}

// Resume opens dir for its remaining trials. The experiment must be the one of
// the directory. env must have the same machine and tare version: trials of two
// machines are not replicates of one another. Otherwise the error lists the
// differences.
func Resume(dir string, experiment []byte, env Environment) (*Dir, error) {
	// Opened before locking, so that a foreign directory gets no lock file.
	if _, err := Open(dir); err != nil {
		return nil, err
	}
	h, err := acquire(dir)
	if err != nil {
		return nil, err
	}
	d, err := Open(dir)
	if err == nil {
		err = errors.Join(opening{d}.sameExperiment(experiment), opening{d}.sameMachine(env), opening{d}.refuseWords())
	}
	if err != nil {
		_ = h.Close()
		return nil, err
	}
	d.held = h
	return d, nil
}

// Open reads a results directory. Its errors contain the file and, if known, the
// line. From then on no file below it is opened through a link ([regular.NoLinks]).
func Open(dir string) (*Dir, error) {
	regular.NoLinks(dir)
	d := &Dir{path: dir}
	if err := (opening{d}).checkIsOne(); err != nil {
		return nil, err
	}
	if err := readJSON(d.file(PlanFile), &d.plan, PlanSchema, func() string { return d.plan.Schema }); err != nil {
		return nil, err
	}
	if err := checkPlan(&d.plan); err != nil {
		return nil, &Error{Op: "read", Path: d.file(PlanFile), Hinted: hint.Hinted{Err: err}}
	}
	if err := readJSON(d.file(EnvironmentFile), &d.environment, Schema, func() string { return d.environment.Schema }); err != nil {
		return nil, err
	}
	var err error
	if d.experiment, err = regular.ReadFile(d.file(ExperimentFile), maxExperiment); err != nil {
		return nil, storage("read", d.file(ExperimentFile), err)
	}
	return d, nil
}

// giveDirectory is the hint about names of no results directory.
const giveDirectory = "give the directory that tare run printed, e.g. runs/<name>-<time>"

func (d opening) checkIsOne() error {
	_, err := regular.Lstat(d.dir.file(PlanFile))
	if err == nil {
		return nil
	}
	if info, err := os.Stat(d.dir.path); err != nil {
		opened := storage("open results directory", d.dir.path, err)
		if e := (*Error)(nil); errors.As(opened, &e) && errors.Is(err, fs.ErrNotExist) {
			e.Text = giveDirectory
		}
		return opened
	} else if !info.IsDir() {
		return &Error{Op: "open results directory", Path: d.dir.path, Hinted: hint.Hinted{Err: errors.New("it is a file"), Text: giveDirectory}}
	}
	if !errors.Is(err, fs.ErrNotExist) {
		return storage("open results directory", d.dir.path, err)
	}
	if entries, err := regular.ReadDir(d.dir.file(TrialsDir)); err == nil && len(entries) > 0 {
		return &Error{Op: "open results directory", Path: d.dir.path, Hinted: hint.Hinted{Err: errors.New("it has trials and no plan.json: an import was cut short"), Text: "remove the directory and import again"}}
	}
	if _, err := regular.Lstat(d.dir.file(ExperimentFile)); err == nil {
		return &Error{Op: "open results directory", Path: d.dir.path, Hinted: hint.Hinted{Err: errors.New("it has no plan.json: the run ended before it began its first trial"), Text: "remove the directory and run the experiment again"}}
	}
	return &Error{Op: "open results directory", Path: d.dir.path, Hinted: hint.Hinted{Err: errors.New("it has no plan.json: it is not a results directory"), Text: giveDirectory}}
}

func (d opening) sameExperiment(experiment []byte) error {
	if want := d.dir.environment.ExperimentSHA256; want != "" && digest(d.dir.experiment) != want {
		return &Error{Op: "resume", Path: d.dir.path, Hinted: hint.Hinted{Err: fmt.Errorf("%s was changed after the run began", ExperimentFile), Text: "restore the former file (SHA-256 " + want + "), or run the experiment into a new directory"}}
	}
	if digest(experiment) == digest(d.dir.experiment) {
		return nil
	}
	return &Error{Op: "resume", Path: d.dir.path, Hinted: hint.Hinted{Err: fmt.Errorf("the experiment is not the one this run began with: %s", firstDifference(d.dir.experiment, experiment)), Text: "trials of two experiments cannot be compared: resume with " + filepath.Join(d.dir.path, ExperimentFile) + ", or run the changed file into a new directory"}}
}

// mustAgree contains the properties that must not change in a resumed run.
var mustAgree = []struct {
	name string
	of   func(Environment) any
}{

	{"tare version", func(e Environment) any { return e.Tare }},
	{"platform", func(e Environment) any { return e.Platform }},
	{"operating system", func(e Environment) any { return e.OS }},
	{"architecture", func(e Environment) any { return e.Arch }},
	{"kernel", func(e Environment) any { return e.Kernel }},
	{"CPU model", func(e Environment) any { return e.CPUModel }},
	{"number of CPUs", func(e Environment) any { return e.CPUs }},
	{"CPU frequency governor", func(e Environment) any { return e.Governor }},
}

func (d opening) sameMachine(now Environment) error {
	var differ []string
	for _, m := range mustAgree {
		if was, is := m.of(d.dir.environment), m.of(now); was != is {
			differ = append(differ, fmt.Sprintf("%s was %v and is now %v", m.name, was, is))
		}
	}
	was := d.dir.environment.Meshes
	for _, name := range slices.Sorted(maps.Keys(was)) { // the experiment file has their names only
		if is := now.Meshes[name]; is != "" && is != was[name] {
			differ = append(differ, fmt.Sprintf("the definition of mesh %s was %.12s and is now %.12s", name, was[name], is))
		}
	}
	if differ == nil {
		return nil
	}
	return &Error{Op: "resume", Path: d.dir.path, Hinted: hint.Hinted{Err: fmt.Errorf("the run began under other conditions: %s", strings.Join(differ, "; ")), Text: "resume it where it began, or run the experiment into a new directory"}}
}

// firstDifference returns the first changed line, before and after.
func firstDifference(was, is []byte) string {
	a, b := strings.Split(string(was), "\n"), strings.Split(string(is), "\n")
	line := func(s []string, i int) string {
		if i >= len(s) {
			return "nothing"
		}
		return fmt.Sprintf("%q", strings.TrimSpace(s[i]))
	}
	for i := range max(len(a), len(b)) {
		if line(a, i) != line(b, i) || (i < len(a) && i < len(b) && a[i] != b[i]) {
			return fmt.Sprintf("line %d was %s and is now %s", i+1, line(a, i), line(b, i))
		}
	}
	return "it differs"
}

// Close lists the directory's files ([SumsFile]) and releases its lock. It may be called more
// than once.
func (d *Dir) Close() error {
	if d.held == nil {
		return nil
	}
	err := errors.Join(d.seal(), d.held.Close())
	d.held = nil
	return err
}

// Path returns the path of the directory.
func (d *Dir) Path() string { return d.path }

// Experiment returns the experiment file of the run, --set included.
func (d *Dir) Experiment() []byte { return bytes.Clone(d.experiment) }

// Plan returns the plan of the run.
func (d *Dir) Plan() plan.Plan { return d.plan }

// Environment returns the environment at the start of the run.
func (d *Dir) Environment() Environment { return d.environment }

// SetVersions records the detected versions of data planes and generators. A
// resumed run must have the versions of its first trials.
func (d *Dir) SetVersions(versions map[string]string) error {
	if d.held == nil {
		return d.readOnly("keep versions")
	}
	merged := maps.Clone(d.environment.Versions)
	if merged == nil {
		merged = map[string]string{}
	}
	for _, name := range slices.Sorted(maps.Keys(versions)) {
		if was, ok := merged[name]; ok && was != versions[name] {
			return &Error{Op: "keep versions", Path: d.path, Hinted: hint.Hinted{Err: fmt.Errorf("the run began with %s %s and would go on with %s", name, was, versions[name]), Text: "provide the first version again, or run the experiment into a new directory"}}
		}
		merged[name] = versions[name]
	}
	if maps.Equal(merged, d.environment.Versions) {
		return nil
	}
	env := d.environment
	env.Versions = merged
	if err := d.unseal(); err != nil {
		return err
	}
	if err := d.held.writeJSON(EnvironmentFile, env); err != nil {
		return err
	}
	d.environment = env
	return nil
}

func (d *Dir) readOnly(op string) error {
	return &Error{Op: op, Path: d.path, Hinted: hint.Hinted{Err: errors.New("the directory is open for reading only")}}
}

func (d *Dir) file(name string) string { return filepath.Join(d.path, name) }

func digest(b []byte) string {
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:])
}

// checkPlan rejects a plan without trials, with identifiers that are duplicate or
// cannot be directory names, or with ordinals out of order.
func checkPlan(p *plan.Plan) error {
	if p == nil || len(p.Trials) == 0 {
		return errors.New("the plan has no trials")
	}
	if p.Blocks > len(p.Trials) { // loops over blocks would not end
		return fmt.Errorf("the plan has %d blocks and %d trials, and each block has one at least", p.Blocks, len(p.Trials))
	}
	seen := make(map[string]bool, len(p.Trials))
	ordinal := 0
	for _, t := range p.Trials {
		switch {
		case t.ID == "" || t.ID != filepath.Base(t.ID) || !filepath.IsLocal(t.ID) || strings.HasPrefix(t.ID, "."):
			return fmt.Errorf("trial %q cannot be the name of a directory", t.ID)
		case seen[t.ID]:
			return fmt.Errorf("trial %s is in the plan twice", t.ID)
		case t.Block > len(p.Trials):
			return fmt.Errorf("trial %s is of block %d, and the plan has %d trials", t.ID, t.Block, len(p.Trials))
		case t.Ordinal <= ordinal:
			return fmt.Errorf("trial %s has ordinal %d, which does not follow %d", t.ID, t.Ordinal, ordinal)
		}
		seen[t.ID], ordinal = true, t.Ordinal
	}
	return nil
}

// Stopped records that a run ended before the last block of its plan because its
// results sufficed. The trials of later blocks are not missing: they were not
// needed.
type Stopped struct {
	Schema string    `json:"schema"`
	At     time.Time `json:"at"`
	Block  int       `json:"block"` // the last block that ran
	Why    string    `json:"why"`
	// Last: the end did not depend on the results, so the look after Block is the last of a sequential test.
	Last bool `json:"last,omitempty"`
}

// Stop records that the run ends after s.Block.
func (d *Dir) Stop(s Stopped) error {
	if d.held == nil {
		return d.readOnly("stop")
	}
	if err := d.unseal(); err != nil {
		return err
	}
	s.Schema = Schema
	return d.held.writeJSON(StoppedFile, s)
}

// Stopped returns the reason for an early end, or nil if the run did not end early. A file that the directory's
// list does not have is an error: it was added after the run, and would change its decisions.
func (d *Dir) Stopped() (*Stopped, error) {
	var s Stopped
	if _, err := regular.Lstat(d.file(StoppedFile)); errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err := readJSON(d.file(StoppedFile), &s, Schema, func() string { return s.Schema }); err != nil {
		return nil, err
	}
	of, err := d.Own()
	if of == nil || err != nil {
		return &s, err
	}
	got, err := Digest(d.path, StoppedFile)
	if err == nil && got.SHA256 != of.Sums[StoppedFile] {
		err = &Error{Op: "read", Path: d.file(StoppedFile), Hinted: hint.Hinted{Err: errors.New("it was added or changed after the run: it is not as " + of.Name + " lists it"), Text: "remove it, or restore the directory from a copy"}}
	}
	return &s, err
}

// Bulk is a results directory of existing trials. Only the plan is made durable,
// and written last: an interrupted import has no plan and is not a results
// directory. A trial then costs three files instead of eight files and six syncs.
type Bulk struct {
	created bool // the directory
	dir     *Dir
}

// CreateBulk begins the results directory of existing trials. An existing
// directory must be empty.
func CreateBulk(dir string, experiment []byte, p *plan.Plan, env Environment) (*Bulk, error) {
	_, absent := os.Lstat(dir)
	d, err := begin(dir, experiment, p, env)
	if err != nil {
		return nil, err
	}
	b := &Bulk{dir: d, created: absent != nil}
	if err := b.begin(); err != nil {
		return nil, errors.Join(err, d.Close())
	}
	return b, nil
}

func (b *Bulk) begin() error {
	if err := mustBeEmpty(b.dir.path); err != nil {
		return err
	}
	return storage("create results directory", b.dir.path, b.dir.held.Mkdir(TrialsDir, 0o755))
}

// Trial writes the record of a planned trial and, unless nil, its interval log.
// It is safe for concurrent use.
func (b *Bulk) Trial(t plan.Trial, r Record, latency []byte) error {
	name := path.Join(TrialsDir, t.ID)
	if err := b.dir.held.Mkdir(name, 0o755); err != nil {
		return storage("write trial in", b.dir.held.path(name), err)
	}
	r.Schema, r.ID, r.Ordinal, r.Block, r.Treatment, r.Manifested = Schema, t.ID, t.Ordinal, t.Block, t.Treatment, true
	text := texts.Get().(*bytes.Buffer)
	defer texts.Put(text)
	text.Reset()
	if err := json.NewEncoder(text).Encode(r); err != nil {
		return &Error{Op: "write", Path: b.dir.TrialFile(t.ID, RecordFile), Hinted: hint.Hinted{Err: err}}
	}
	m := Manifest{Schema: Schema, Trial: t.ID, Complete: true}
	if latency != nil {
		m.Files = append(m.Files, fileOf(LatencyFile, latency))
		if err := b.Write(path.Join(name, LatencyFile), latency); err != nil {
			return err
		}
	}
	m.Files = append(m.Files, fileOf(RecordFile, text.Bytes()))
	manifest, err := encode(b.dir.TrialFile(t.ID, ManifestFile), m)
	if err != nil {
		return err
	}
	if err := b.Write(path.Join(name, ManifestFile), manifest); err != nil {
		return err
	}
	return b.Write(path.Join(name, RecordFile), text.Bytes())
}

// texts are reused buffers of records.
var texts = sync.Pool{New: func() any { return new(bytes.Buffer) }}

// Write creates a file with a content in the directory.
func (b *Bulk) Write(name string, data []byte) error {
	f, err := b.Create(name)
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	if err = errors.Join(err, f.Close()); err != nil {
		return storage("write", f.Name(), err)
	}
	return nil
}

// Create creates a file in the directory.
func (b *Bulk) Create(name string) (*os.File, error) {
	f, err := b.dir.held.exclusive(name)
	return f, storage("write", b.dir.held.path(name), err)
}

// Finish completes the results directory and writes the plan last.
func (b *Bulk) Finish() error {
	env, err := encode(b.dir.file(EnvironmentFile), b.dir.environment)
	if err != nil {
		return err
	}
	if err := b.Write(ExperimentFile, b.dir.experiment); err != nil {
		return err
	}
	if err := b.Write(EnvironmentFile, env); err != nil {
		return err
	}
	return b.dir.held.writeJSON(PlanFile, b.dir.plan)
}

// Close lists the files of a finished directory and releases its lock. It may be
// called more than once.
func (b *Bulk) Close() error { return b.dir.Close() }

// Discard closes the directory of an import that failed, and removes all that it has, and the directory if CreateBulk
// created it.
func (b *Bulk) Discard() error {
	errs := lists.Map(append([]string{TrialsDir}, ownFiles...), b.dir.held.RemoveAll)
	errs = append(errs, b.dir.held.Close())
	if b.created {
		errs = append(errs, os.Remove(b.dir.path))
	}
	b.dir.held = nil
	return errors.Join(errs...)
}

// begin creates and locks the directory of an experiment, which must be empty.
func begin(dir string, experiment []byte, p *plan.Plan, env Environment) (*Dir, error) {
	if err := checkPlan(p); err != nil {
		return nil, &Error{Op: "create results directory", Path: dir, Hinted: hint.Hinted{Err: err}}
	}
	_, missing := os.Lstat(dir)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, storage("create results directory", dir, err)
	}
	// Checked before locking too, so that a foreign directory gets no lock file.
	if err := mustBeEmpty(dir); err != nil {
		return nil, err
	}
	h, err := acquire(dir)
	if err != nil {
		if errors.Is(missing, fs.ErrNotExist) {
			_ = os.Remove(dir) // unless another process has begun there
		}
		return nil, err
	}
	d := &Dir{path: dir, experiment: bytes.Clone(experiment), plan: *p, environment: env, held: h}
	d.environment.Schema = Schema
	d.environment.ExperimentSHA256 = digest(experiment)
	d.plan.Schema = PlanSchema
	return d, nil
}
