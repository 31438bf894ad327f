package runner

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/tare-mesh/tare/internal/base/hint"
	"github.com/tare-mesh/tare/internal/metric"
	"github.com/tare-mesh/tare/internal/result"
)

// journal keeps the record and the events of a trial.
type journal struct {
	setup  *setup
	record result.Record
	idle   map[string]int64        // resident memory of idle tasks before the load, bytes, by ID
	memory memoryTraces            // resident memory over time
	abort  context.CancelCauseFunc // ends the trial and the run: the directory cannot be written

	mu   sync.Mutex
	lost error // an event that was not written
}

// emit writes an event to the trial's directory and to every sink. If the directory cannot be
// written the run ends.
func (j *journal) emit(e result.Event) {
	e.Trial = j.setup.of.ID
	if e.Time.IsZero() {
		e.Time = j.setup.clock.now()
	}
	if err := j.setup.dir.Event(e); err != nil {
		j.mu.Lock()
		j.lost = err
		j.mu.Unlock()
		j.abort(err)
	}
	j.setup.send(e)
}

func (j *journal) lostEvent() error {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.lost
}

// nodeUnread warns that the total of the machine is missing.
func (j *journal) nodeUnread(why error) {
	j.warn(result.Warning{Code: "node-unread", Message: fmt.Sprintf("the machine's total could not be read: %v", why), Metrics: []string{metric.NodeCPU}})
}

func (j *journal) warn(w result.Warning) { j.record.Warnings = append(j.record.Warnings, w) }

// invalid is a trial that ran and whose figures cannot be used.
type invalid struct {
	hint.Hinted
	warning result.Warning
}

func unusable(code, message, text string) error {
	return &invalid{hint.Hinted{Err: errors.New(message), Text: text},
		result.Warning{Code: code, Message: message, Hint: text, Invalidates: true}}
}
