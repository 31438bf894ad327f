package result

import (
	"bufio"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"slices"
	"time"

	"github.com/tare-mesh/tare/internal/base/hint"
	"github.com/tare-mesh/tare/internal/base/regular"
	"github.com/tare-mesh/tare/internal/experiment/plan"
)

// settling is the time from an event's own time until it is in its file. Events of several trials
// are merged by time, so that later ones wait for it.
const settling = 100 * time.Millisecond

// Follower reads the events of a results directory while a run writes it. It never writes.
type Follower struct {
	dir     *Dir
	trials  []*followed
	waiting []Event // read, and newer than the last cut
	now     func() time.Time
}

// followed is a trial's file of events as far as it was read.
type followed struct {
	of     plan.Trial
	offset int64
	lines  int
	done   bool // its last event was read
}

// Follow returns a follower of all trials from their first event on.
func Follow(d *Dir) *Follower {
	f := &Follower{dir: d, now: time.Now}
	for _, t := range d.plan.Trials {
		f.trials = append(f.trials, &followed{of: t})
	}
	return f
}

// Opening is the event that begins a run. It is in no file.
func (d *Dir) Opening(measure time.Duration) Event {
	return Event{Time: d.environment.Time, Kind: KindRun, Run: &Run{
		Experiment: d.plan.Experiment, Dir: d.path, Trials: len(d.plan.Trials), TrialTime: d.plan.TrialTime, Measure: measure,
	}}
}

// Next returns the events since the last call, in order of time. It does not wait.
func (f *Follower) Next() ([]Event, error) {
	cut := f.now().Add(-settling)
	names, err := f.begun()
	if err != nil {
		return nil, err
	}
	for _, t := range f.trials {
		if t.done || !names[t.of.ID] {
			continue
		}
		if err := f.read(t); err != nil {
			return nil, err
		}
	}
	slices.SortStableFunc(f.waiting, func(a, b Event) int { return a.Time.Compare(b.Time) })
	i := slices.IndexFunc(f.waiting, func(e Event) bool { return e.Time.After(cut) })
	if i < 0 {
		i = len(f.waiting)
	}
	due := slices.Clone(f.waiting[:i])
	f.waiting = slices.Delete(f.waiting, 0, i)
	return due, nil
}

// begun are the trials with a directory.
func (f *Follower) begun() (map[string]bool, error) {
	entries, err := regular.ReadDir(f.dir.file(TrialsDir))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, storage("read", f.dir.file(TrialsDir), err)
	}
	names := make(map[string]bool, len(entries))
	for _, e := range entries {
		names[e.Name()] = e.IsDir()
	}
	return names, nil
}

// read reads the complete lines of a trial beyond those read before. A trial that began again has a
// shorter file, and is read from its beginning.
func (f *Follower) read(t *followed) error {
	path := f.dir.TrialFile(t.of.ID, EventsFile)
	file, err := regular.Open(path, maxEvents)
	if errors.Is(err, fs.ErrNotExist) {
		return nil // the trial begins
	}
	if err != nil {
		return storage("read", path, err)
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil {
		return storage("read", path, err)
	}
	if info.Size() < t.offset {
		t.offset, t.lines = 0, 0
	}
	if info.Size() == t.offset {
		return nil
	}
	if _, err := file.Seek(t.offset, io.SeekStart); err != nil {
		return storage("read", path, err)
	}
	in := bufio.NewReaderSize(file, 64<<10)
	for {
		line, err := readLine(in)
		if errors.Is(err, io.EOF) {
			return nil
		}
		var e Event
		if err == nil {
			err = json.Unmarshal(line, &e)
		}
		if err != nil {
			return &Error{Op: "read", Path: path, Line: t.lines + 1, Hinted: hint.Hinted{Err: err}}
		}
		t.offset, t.lines = t.offset+int64(len(line)), t.lines+1
		e.Trial = t.of.ID // the directory's, whatever the file contains
		t.done = e.Kind == KindDone
		f.waiting = append(f.waiting, e)
	}
}

// Ended reports whether no run is writing: the files of the directory are listed, until a run begins a trial, or
// every trial has a record.
func (d *Dir) Ended() (bool, error) {
	for _, list := range []string{SumsFile, ManifestFile} {
		if _, err := regular.Lstat(d.file(list)); err == nil {
			return true, nil
		}
	}
	pending, err := d.Pending()
	return len(pending) == 0 && err == nil, err
}
