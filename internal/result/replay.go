package result

import (
	"errors"
	"io/fs"
	"iter"
	"slices"

	"github.com/tare-mesh/tare/internal/experiment/plan"
)

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
