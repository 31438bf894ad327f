package runner

import (
	"context"
	"errors"

	"github.com/tare-mesh/tare/internal/base/hint"
	"github.com/tare-mesh/tare/internal/base/printable"
	"github.com/tare-mesh/tare/internal/result"
)

// write checks the trial and writes its record. It is the last phase.
func (t *trial) write(context.Context) error {
	t.journal.memory.keep(t.journal.record.Tasks, t.sliced != nil)
	t.journal.record.ByHand = t.setup.Services.end(t)
	t.judge()
	t.journal.record.Ended = t.setup.clock.now()
	if err := t.journal.lostEvent(); err != nil {
		return err
	}
	done := result.Event{Time: t.setup.clock.now(), Kind: result.KindDone, Trial: t.setup.of.ID, Total: t.journal.record.Total()}
	if err := t.setup.dir.Event(done); err != nil {
		return err
	}
	if err := t.setup.dir.Finish(t.journal.record); err != nil {
		t.outcome = err // the record cannot be kept, so its outcome is lost
		return err
	}
	t.recorded = true
	t.count()
	t.setup.send(done)
	return nil
}

// judge sets the outcome in the record and emits it.
func (t *trial) judge() {
	bad, isInvalid := errors.AsType[*invalid](t.outcome)
	switch {
	case isInvalid:
		t.journal.warn(bad.warning)
	case t.outcome != nil:
		t.journal.record.Error = printable.Translate(t.outcome.Error())
		if h := hint.Of(t.outcome); h != "" {
			t.journal.warn(result.Warning{Code: "failed", Message: "the trial failed", Hint: h, Invalidates: true})
		}
		t.journal.emit(result.Event{Kind: result.KindError, Message: t.journal.record.Error, Hint: hint.Of(t.outcome)})
		return
	case t.setup.Experiment.Batch != nil:
		t.journal.record.Warnings = append(t.journal.record.Warnings, executed(&t.journal.record, t.setup.Experiment.Validity)...)
	default:
		if len(t.journal.record.Faults) > 0 || t.setup.Experiment.Changing() {
			t.seen.seconds = t.judgedSeconds()
		}
		t.journal.record.Warnings = append(t.journal.record.Warnings, t.checked()...)
		t.expect()
	}
	for _, w := range t.journal.record.Warnings {
		if w.Invalidates {
			t.journal.emit(result.Event{Kind: result.KindInvalid, Message: w.Message, Hint: w.Hint})
			return
		}
	}
	t.journal.record.Valid = true
}

func (t *trial) count() {
	t.setup.learn(&t.journal.record)
	t.setup.summary.Recorded++
	switch {
	case t.journal.record.Error != "":
		t.setup.summary.Failed++
	case !t.journal.record.Valid:
		t.setup.summary.Invalid++
	}
}
