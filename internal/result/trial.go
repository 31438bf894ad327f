package result

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"sync"

	"github.com/tare-mesh/tare/internal/base/hint"
	"github.com/tare-mesh/tare/internal/base/regular"
	"github.com/tare-mesh/tare/internal/base/secret"
	"github.com/tare-mesh/tare/internal/experiment/plan"
)

// TrialDir is the directory of a running trial. It is a [Sink].
type TrialDir struct {
	held  *held
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
	if d.held == nil {
		return nil, d.readOnly("begin trial " + t.ID)
	}
	if err := d.unseal(); err != nil {
		return nil, err
	}
	td := d.trialDir(t)
	if err := td.moveAside(); err != nil {
		return nil, err
	}
	// Programs write to paths below. The directories are new, so no link of another person is in them.
	for _, name := range []string{"", ProvenanceDir} {
		if err := td.held.Mkdir(td.name(name), 0o755); err != nil {
			return nil, storage("begin trial in", td.path, err)
		}
	}
	f, err := td.held.exclusive(td.name(EventsFile))
	if err != nil {
		return nil, storage("begin trial in", td.path, err)
	}
	td.events = f
	return td, nil
}

func (d *Dir) trialDir(t plan.Trial) *TrialDir {
	return &TrialDir{held: d.held, path: d.trialPath(t.ID), trial: t}
}

func (td *TrialDir) moveAside() error {
	if err := td.held.real(td.name(""), fs.ModeDir); err != nil {
		return err
	}
	switch _, err := td.held.Lstat(td.name(RecordFile)); {
	case err == nil:
		return &Error{Op: "begin trial in", Path: td.path, Hinted: hint.Hinted{Err: errors.New("it is already recorded")}}
	case !errors.Is(err, fs.ErrNotExist):
		return storage("begin trial in", td.path, err)
	}
	own := td.name("")
	if _, err := td.held.Lstat(own); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err := td.held.RemoveAll(own + PartialSuffix); err != nil {
		return storage("remove", td.path+PartialSuffix, err)
	}
	return storage("move aside", td.path, td.held.Rename(own, own+PartialSuffix))
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
	if _, err := td.events.Write(append(secret.RedactJSON(b), '\n')); err != nil {
		td.failed = storage("write", td.Path(EventsFile), err)
	}
	return td.failed
}

// Provenance returns the existing directory for rendered configs, command lines
// and logs.
func (td *TrialDir) Provenance() string { return filepath.Join(td.path, ProvenanceDir) }

// Create creates a file of the trial. It fails if there is one.
func (td *TrialDir) Create(name string) (*os.File, error) {
	f, err := td.held.exclusive(td.name(name))
	return f, storage("write", td.Path(name), err)
}

// Remove removes a file of the trial, if there is one.
func (td *TrialDir) Remove(name string) error { return td.held.remove(td.name(name)) }

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
	if err := td.held.sync(td.name(LatencyFile)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	r.Schema, r.Manifested = Schema, true
	text, err := encode(td.Path(RecordFile), r)
	if err != nil {
		return err
	}
	if err := td.manifest(fileOf(RecordFile, text)); err != nil {
		return err
	}
	if err := td.held.write(td.name(RecordFile), text); err != nil {
		return err
	}
	return td.held.sync(TrialsDir) // the entry of the trial's own directory must be durable too
}

// name returns the name of a file of the trial in the root of the results directory.
func (td *TrialDir) name(name string) string { return path.Join(TrialsDir, td.trial.ID, name) }

// Abandon closes the trial without a record. Its files remain until the trial
// begins again.
func (td *TrialDir) Abandon() error { return errors.Join(td.closeEvents(), td.redact()) }

// redact removes known secrets from what programs wrote: configurations and logs. None of them may run any more.
func (td *TrialDir) redact() error {
	if !secret.Any() {
		return nil
	}
	return fs.WalkDir(td.held.FS(), td.name(ProvenanceDir), func(name string, e fs.DirEntry, err error) error {
		if err != nil || !e.Type().IsRegular() {
			if errors.Is(err, fs.ErrNotExist) {
				return nil
			}
			return err
		}
		file, err := regular.Open(td.held.path(name), maxLog)
		if err != nil {
			return err
		}
		defer file.Close()
		info, err := e.Info()
		if err != nil {
			return err
		}
		err = td.held.replace(name, func(w io.Writer) error {
			found, err := secret.Copy(w, file)
			if err == nil && !found {
				err = errUnchanged
			}
			return err
		})
		if err == nil {
			err = td.held.Chmod(name, info.Mode().Perm())
		}
		return err
	})
}

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

// Path returns the path of the trial's file called name.
func (td *TrialDir) Path(name string) string { return filepath.Join(td.path, name) }
