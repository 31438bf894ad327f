package result

import (
	"bufio"
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"path"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	"golang.org/x/sync/errgroup"

	"github.com/tare-mesh/tare/internal/base/hint"
	"github.com/tare-mesh/tare/internal/base/lists"
	"github.com/tare-mesh/tare/internal/base/regular"
	"github.com/tare-mesh/tare/internal/base/routine"
	"github.com/tare-mesh/tare/internal/experiment/plan"
)

// maxEventLine is the max length of a line of events.jsonl in bytes: a sample of
// some ten thousand tasks.
const maxEventLine = 16 << 20

// maxEvents bounds events.jsonl in bytes: a day of samples of 1000 tasks.
const maxEvents = 64 << 30

// Records returns the finished trials in ordinal order. A trial without a record
// is absent. A damaged or unplanned record is an error. A record that contradicts
// itself or its manifest is returned as invalid, with a warning.
func (d *Dir) Records() ([]Record, error) {
	records, _, err := RecordsAndSlices(d)
	return records, err
}

// RecordsAndSlices returns the records, and by trial the slices that they were compared with. Unreadable slices are absent.
func RecordsAndSlices(d *Dir) ([]Record, map[string][]Slice, error) {
	if err := cmp.Or(d.onlyPlanned(), allListed(d)); err != nil {
		return nil, nil, err
	}
	found, rows, errs := make([]*Record, len(d.plan.Trials)), make([][]Slice, len(d.plan.Trials)), make([]error, len(d.plan.Trials))
	var group errgroup.Group
	group.SetLimit(runtime.GOMAXPROCS(0))
	for i, t := range d.plan.Trials {
		group.Go(routine.Guarded(func() error {
			r, of, err := d.trusted(t)
			if found[i], rows[i] = &r, of; err != nil {
				found[i], errs[i] = nil, err
			}
			return nil
		}))
	}
	_ = group.Wait() // the error of the first trial is returned, however they finish
	var records []Record
	read := map[string][]Slice{}
	for i, r := range found {
		switch {
		case r != nil:
			if records = append(records, *r); rows[i] != nil {
				read[r.ID] = rows[i]
			}
		case !errors.Is(errs[i], fs.ErrNotExist):
			return nil, nil, errs[i]
		}
	}
	return records, read, nil
}

// Record returns the record of a planned trial as it is stored, and its SHA-256
// (hexadecimal). The error is fs.ErrNotExist for a trial without one.
func (d *Dir) Record(t plan.Trial) (Record, string, error) {
	path := filepath.Join(d.trialPath(t.ID), RecordFile)
	text := texts.Get().(*bytes.Buffer)
	defer texts.Put(text)
	text.Reset()
	if err := regular.ReadInto(text, path, maxJSON); err != nil {
		return Record{}, "", storage("read", path, err)
	}
	var r Record
	if err := decode(path, text.Bytes(), &r, Schema, func() string { return r.Schema }); err != nil {
		return Record{}, "", err
	}
	if r.ID != t.ID || r.Ordinal != t.Ordinal || r.Block != t.Block || r.Treatment != t.Treatment {
		return Record{}, "", &Error{Op: "read", Path: path, Hinted: hint.Hinted{Err: fmt.Errorf("the record is of trial %s (%d, %s, block %d), the plan has %s (%d, %s, block %d) here",
			r.ID, r.Ordinal, r.Treatment, r.Block, t.ID, t.Ordinal, t.Treatment, t.Block), Text: "trials of two runs have been mixed: restore the directory"}}
	}
	return r, digest(text.Bytes()), nil
}

// allListed rejects a directory of an ended run that lacks a record: its trial would otherwise be silently absent.
func allListed(d *Dir) error {
	if d.held != nil {
		return nil // a run that continues makes it again
	}
	of, err := d.Own()
	if of == nil || err != nil {
		return err
	}
	for _, t := range d.plan.Trials {
		record, name := path.Join(TrialsDir, t.ID, RecordFile), path.Join(TrialsDir, t.ID, ManifestFile)
		if of.Whole {
			name = record
		}
		if of.Sums[name] == "" {
			continue
		}
		if _, err := regular.Lstat(d.file(record)); errors.Is(err, fs.ErrNotExist) {
			return &Error{Op: "read", Path: d.file(record), Hinted: hint.Hinted{Err: errors.New("the file is missing, and " + of.Name + " lists it"),
				Text: "restore it from a copy, or run the trial again with: tare run --resume " + d.path}}
		}
	}
	return nil
}

// onlyPlanned rejects recorded trials missing from the plan, which would
// otherwise be silently absent.
func (d *Dir) onlyPlanned() error {
	entries, err := regular.ReadDir(d.file(TrialsDir))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return storage("read", d.file(TrialsDir), err)
	}
	planned := lists.Set(d.plan.Trials, func(t plan.Trial) string { return t.ID })
	for _, e := range entries {
		if planned[e.Name()] || strings.HasSuffix(e.Name(), PartialSuffix) {
			continue
		}
		path := filepath.Join(d.trialPath(e.Name()), RecordFile)
		if _, err := regular.Lstat(path); err == nil {
			return &Error{Op: "read", Path: path, Hinted: hint.Hinted{Err: errors.New("the trial is not in " + PlanFile), Text: "trials of two runs have been mixed: move it away"}}
		}
	}
	return nil
}

// Pending returns the trials without a record, in ordinal order.
func (d *Dir) Pending() ([]plan.Trial, error) {
	stopped, err := d.Stopped()
	if err != nil {
		return nil, err
	}
	var pending []plan.Trial
	for _, t := range d.plan.Trials {
		if stopped != nil && t.Block > stopped.Block {
			continue // not needed
		}
		switch _, err := regular.Lstat(d.TrialFile(t.ID, RecordFile)); {
		case errors.Is(err, fs.ErrNotExist):
			pending = append(pending, t)
		case err != nil:
			return nil, storage("read", d.trialPath(t.ID), err)
		}
	}
	return pending, nil
}

// Events iterates over the events of one trial in order, also while it runs. It
// skips a last line torn by a crash. Any other unreadable line is an error,
// which ends the sequence.
func (d *Dir) Events(trialID string) iter.Seq2[Event, error] {
	path := d.TrialFile(trialID, EventsFile)
	return func(yield func(Event, error) bool) {
		f, err := regular.Open(path, maxEvents)
		if err != nil {
			yield(Event{}, storage("read", path, err))
			return
		}
		defer f.Close()
		in := bufio.NewReaderSize(f, 64<<10)
		for n := 1; ; n++ {
			line, err := readLine(in)
			if errors.Is(err, io.EOF) {
				return
			}
			var e Event
			if err == nil {
				err = json.Unmarshal(line, &e)
			}
			if err != nil {
				yield(Event{}, &Error{Op: "read", Path: path, Line: n, Hinted: hint.Hinted{Err: err}})
				return
			}
			if !yield(e, nil) {
				return
			}
		}
	}
}

// TrialFile returns the path of a file of the trial called id, e.g.
// [LatencyFile]. The file may be absent.
func (d *Dir) TrialFile(id, name string) string { return filepath.Join(d.trialPath(id), name) }

// readLine returns the next complete line. Bytes after the last line end are
// torn: it returns io.EOF.
func readLine(in *bufio.Reader) ([]byte, error) {
	var line []byte
	for {
		part, err := in.ReadSlice('\n')
		switch {
		case len(line)+len(part) > maxEventLine:
			return nil, fmt.Errorf("the line is longer than %d bytes", maxEventLine)
		case err == nil && line == nil:
			return part, nil
		case err == nil:
			return append(line, part...), nil
		case !errors.Is(err, bufio.ErrBufferFull):
			return nil, err
		}
		line = append(line, part...)
	}
}

// Replay iterates over the events of all recorded trials. Events of one round are in order of time. A
// trial without stored events has its beginning and its outcome.
func (d *Dir) Replay() iter.Seq2[Event, error] {
	return func(yield func(Event, error) bool) {
		for _, round := range plan.Rounds(d.plan.Trials) {
			events, err := d.replayed(round)
			if err != nil {
				yield(Event{}, err)
				return
			}
			for _, e := range events {
				if !yield(e, nil) {
					return
				}
			}
		}
	}
}

func (d *Dir) replayed(trials []plan.Trial) ([]Event, error) {
	var all []Event
	for _, t := range trials {
		r, _, err := d.Record(t)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, err
		}
		events, err := d.eventsOf(t)
		if err != nil {
			return nil, err
		}
		all = append(all, withOutcome(events, r)...)
	}
	slices.SortStableFunc(all, func(a, b Event) int { return a.Time.Compare(b.Time) })
	return all, nil
}

func (d *Dir) eventsOf(t plan.Trial) (all []Event, err error) {
	for e, err := range d.Events(t.ID) {
		if errors.Is(err, fs.ErrNotExist) {
			return nil, nil // of an import
		}
		if err != nil {
			return nil, err
		}
		e.Trial = t.ID
		all = append(all, e)
	}
	return all, nil
}

// withOutcome adds the first and the last event where they were not stored.
func withOutcome(events []Event, r Record) []Event {
	has := func(kind string) bool {
		return slices.ContainsFunc(events, func(e Event) bool { return e.Kind == kind })
	}
	if !has(KindTrial) {
		events = slices.Insert(events, 0, Event{Time: r.Started, Kind: KindTrial, Trial: r.ID})
	}
	switch {
	case r.Error != "" && !has(KindError):
		events = append(events, Event{Time: r.Ended, Kind: KindError, Trial: r.ID, Message: r.Error})
	case r.Error == "" && !r.Valid && !has(KindInvalid):
		for _, w := range r.Warnings {
			if w.Invalidates {
				events = append(events, Event{Time: r.Ended, Kind: KindInvalid, Trial: r.ID, Message: w.Message, Hint: w.Hint})
				break
			}
		}
	}
	if !has(KindDone) {
		events = append(events, Event{Time: r.Ended, Kind: KindDone, Trial: r.ID})
	}
	for i := range events { // earlier versions did not store it
		if e := &events[i]; e.Kind == KindDone && e.Total == nil {
			e.Total = r.Total()
		}
	}
	return events
}
