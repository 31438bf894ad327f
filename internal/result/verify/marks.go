package verify

import (
	"cmp"
	"fmt"
	"path"
	"reflect"
	"slices"
	"time"

	"github.com/tare-mesh/tare/internal/result"
)

// marks compares the faults and changes of the record with the events of them.
func marks(f *findings, r *result.Record, l *timeline) {
	file := path.Join(result.TrialsDir, r.ID, result.EventsFile)
	made := func(c result.Change) result.Change { // an event lacks the effects
		return result.Change{Kind: c.Kind, Version: c.Version, Endpoint: c.Endpoint, Task: c.Task, DueSeconds: c.DueSeconds, SentSeconds: c.SentSeconds, AcceptedSeconds: c.AcceptedSeconds}
	}
	// Changes that overlap are answered, and then logged, in another order than they were sent.
	inOrder := func(changes []result.Change) []result.Change {
		sorted := slices.Clone(changes)
		slices.SortStableFunc(sorted, func(a, b result.Change) int {
			return cmp.Or(cmp.Compare(a.DueSeconds, b.DueSeconds), cmp.Compare(a.SentSeconds, b.SentSeconds), cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Endpoint, b.Endpoint))
		})
		return sorted
	}
	if !slices.EqualFunc(inOrder(r.Changes), inOrder(l.changes), func(a, b result.Change) bool { return reflect.DeepEqual(made(a), made(b)) }) {
		f.problem(file, fmt.Sprintf("its %d changes are not the %d changes of the record", len(l.changes), len(r.Changes)))
	}
	for _, of := range r.Faults {
		// The event of the injection has no end yet, and that of healing has both.
		either := func(a, b time.Time) bool { return a.IsZero() || b.IsZero() || a.Equal(b) }
		same := func(e result.Fault) bool {
			return e.Index == of.Index && e.Kind == of.Kind && e.Start.Equal(of.Start) && slices.Equal(e.Targets, of.Targets) && either(e.Done, of.Done) && either(e.Healed, of.Healed)
		}
		if i := slices.IndexFunc(l.faults, func(e result.Fault) bool { return !e.Healed.IsZero() && e.Index == of.Index && e.Start.Equal(of.Start) }); i >= 0 && !same(l.faults[i]) {
			f.problem(file, fmt.Sprintf("it has fault %s of %s done at %s and healed at %s, and the record at %s and %s", of.Kind, of.Start.Format(time.RFC3339Nano),
				l.faults[i].Done.Format(time.RFC3339Nano), l.faults[i].Healed.Format(time.RFC3339Nano), of.Done.Format(time.RFC3339Nano), of.Healed.Format(time.RFC3339Nano)))
			continue
		}
		if !slices.ContainsFunc(l.faults, same) {
			f.problem(file, fmt.Sprintf("it has no fault %s of %s, as the record has", of.Kind, of.Start.Format(time.RFC3339Nano)))
		}
	}
	for _, e := range l.faults {
		if !slices.ContainsFunc(r.Faults, func(of result.Fault) bool { return e.Index == of.Index && e.Start.Equal(of.Start) }) {
			f.problem(file, fmt.Sprintf("it has a fault %s of %s, which the record lacks", e.Kind, e.Start.Format(time.RFC3339Nano)))
		}
	}
}
