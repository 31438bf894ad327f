package runner

import (
	"errors"
	"fmt"
	"io/fs"

	"github.com/tare-mesh/tare/internal/experiment/expect"
	"github.com/tare-mesh/tare/internal/result"
)

// expect evaluates the experiment's expectations on each second of the trial.
func (t *trial) expect() {
	if len(t.setup.Experiment.Expect) == 0 {
		return
	}
	seen, err := t.secondsOf()
	for _, text := range t.setup.Experiment.Expect {
		o := expect.Outcome{Expect: text}
		condition, bad := expect.Parse(text)
		switch {
		case bad != nil: // the file was checked: another version of tare wrote it
			o.Detail = bad.Error()
		case err != nil:
			o.Detail = err.Error()
		default:
			o = condition.Evaluate(seen)
		}
		t.journal.record.Expectations = append(t.journal.record.Expectations, o)
		if !o.OK {
			outcome := "does not hold"
			if o.Undecided {
				outcome = "undecided"
			}
			t.journal.emit(result.Event{Kind: result.KindLog, Message: fmt.Sprintf("%s: %s: %s", outcome, o.Expect, o.Detail)})
		}
	}
}

// secondsOf reads the seconds of the measure phase, with the faults in it.
func (t *trial) secondsOf() (expect.Trial, error) {
	l := t.journal.record.Load
	first, n := l.Window()
	seconds, err := expect.ReadSeconds(t.setup.dir.Path(result.LatencyFile), first, n)
	if errors.Is(err, fs.ErrNotExist) {
		err = fmt.Errorf("generator %s keeps no latencies by the second: %w", l.Generator, errors.ErrUnsupported)
	}
	return expect.Trial{Seconds: seconds, Status: l.Statuses, Faults: t.journal.record.FaultTimes(), Changes: t.journal.record.ChangesSeen(), Starts: t.journal.record.StartsSeen()}, err
}
