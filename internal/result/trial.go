package result

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"

	"github.com/tare-mesh/tare/internal/base/hint"
	"github.com/tare-mesh/tare/internal/experiment/plan"
)

// TrialDir is the directory of a running trial. It is a [Sink].
type TrialDir struct {
	path  string
	trial plan.Trial

	mu     sync.Mutex // the runner's phases and its sampler write concurrently
	events *os.File
	failed error // an event was lost: the trial cannot be recorded
}

// Trial begins the directory of t. It moves files of an earlier attempt to
// "<trial>.partial", which replaces an even older attempt. It refuses a recorded
// trial.
func (d *Dir) Trial(t plan.Trial) (*TrialDir, error) {
	if d.lock == nil {
		return nil, d.readOnly("begin trial " + t.ID)
	}
	if err := d.unseal(); err != nil {
		return nil, err
	}
	path := d.trialPath(t.ID)
	if err := d.moveAside(path); err != nil {
		return nil, err
	}
	td := &TrialDir{path: path, trial: t}
	if err := os.MkdirAll(td.Provenance(), 0o755); err != nil {
		return nil, storage("begin trial in", path, err)
	}
	f, err := os.OpenFile(td.Path(EventsFile), os.O_WRONLY|os.O_CREATE|os.O_EXCL|os.O_APPEND, 0o644)
	if err != nil {
		return nil, storage("begin trial in", path, err)
	}
	td.events = f
	return td, nil
}

func (d *Dir) moveAside(path string) error {
	switch _, err := os.Stat(filepath.Join(path, RecordFile)); {
	case err == nil:
		return &Error{Op: "begin trial in", Path: path, Hinted: hint.Hinted{Err: errors.New("it is already recorded")}}
	case !errors.Is(err, fs.ErrNotExist):
		return storage("begin trial in", path, err)
	}
	if _, err := os.Lstat(path); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err := os.RemoveAll(path + PartialSuffix); err != nil {
		return storage("remove", path+PartialSuffix, err)
	}
	if err := os.Rename(path, path+PartialSuffix); err != nil {
		return storage("move aside", path, err)
	}
	return nil
}

func (d *Dir) trialPath(id string) string { return filepath.Join(d.path, TrialsDir, id) }

// Event appends e as one line with one write, so that a crash tears at most the last line.
func (td *TrialDir) Event(e Event) error {
	b, err := json.Marshal(e)
	if err != nil {
		return &Error{Op: "write", Path: td.Path(EventsFile), Hinted: hint.Hinted{Err: err}}
	}
	td.mu.Lock()
	defer td.mu.Unlock()
	if td.failed != nil {
		return td.failed // the lost line may be torn, so nothing may follow it
	}
	if td.events == nil {
		return &Error{Op: "write", Path: td.Path(EventsFile), Hinted: hint.Hinted{Err: errors.New("the trial is finished")}}
	}
	if _, err := td.events.Write(append(b, '\n')); err != nil {
		td.failed = storage("write", td.Path(EventsFile), err)
	}
	return td.failed
}

// Provenance returns the existing directory for rendered configs, command lines
// and logs.
func (td *TrialDir) Provenance() string { return filepath.Join(td.path, ProvenanceDir) }

// Path returns the path of the trial's file called name.
func (td *TrialDir) Path(name string) string { return filepath.Join(td.path, name) }

// Finish makes the trial durable and closes it. The record is renamed last: with
// it the trial is complete, without it absent. After any error, including a lost
// event, the trial is not recorded. [TrialDir.Seal] follows once the deployment is
// removed.
func (td *TrialDir) Finish(r Record) error {
	if err := td.closeEvents(); err != nil {
		return err
	}
	if r.ID != td.trial.ID {
		return &Error{Op: "write", Path: td.Path(RecordFile), Hinted: hint.Hinted{Err: fmt.Errorf("the record is of trial %s", r.ID)}}
	}
	if err := syncPath(td.Path(LatencyFile)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return storage("write", td.Path(LatencyFile), err)
	}
	r.Schema, r.Manifested = Schema, true
	text, err := encode(td.Path(RecordFile), r)
	if err != nil {
		return err
	}
	if err := td.manifest(fileOf(RecordFile, text)); err != nil {
		return err
	}
	if err := writeWhole(td.Path(RecordFile), text); err != nil {
		return err
	}
	// The entry of the trial's own directory must be durable too.
	if err := syncPath(filepath.Dir(td.path)); err != nil {
		return storage("write", td.Path(RecordFile), err)
	}
	return nil
}

// Abandon closes the trial without a record. Its files remain until the trial
// begins again.
func (td *TrialDir) Abandon() error { return td.closeEvents() }

func (td *TrialDir) closeEvents() error {
	td.mu.Lock()
	defer td.mu.Unlock()
	if td.events == nil {
		return td.failed
	}
	err := errors.Join(td.events.Sync(), td.events.Close())
	td.events = nil
	if err != nil && td.failed == nil {
		td.failed = storage("write", td.Path(EventsFile), err)
	}
	return td.failed
}
