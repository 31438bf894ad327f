package result

import (
	"bytes"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path"
	"sync"

	"github.com/tare-mesh/tare/internal/base/hint"
	"github.com/tare-mesh/tare/internal/base/lists"
	"github.com/tare-mesh/tare/internal/experiment/plan"
)

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
