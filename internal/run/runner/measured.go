package runner

import (
	"errors"
	"io/fs"
	"os"
	"time"

	"github.com/tare-mesh/tare/internal/load/loadgen"
	"github.com/tare-mesh/tare/internal/result"
)

// mergeMeasured writes the measure window of the latency log as one histogram a
// tag, beside it. It saves whoever reads the results work and is no part of the
// record: where it cannot be written, the log says the same.
func (t *trial) mergeMeasured() {
	if err := mergeWindow(t.dir, t.record.Load); err != nil && !errors.Is(err, fs.ErrNotExist) {
		t.emit(result.Event{Kind: result.KindLog, Message: err.Error()})
	}
}

func mergeWindow(dir *result.TrialDir, l *result.Load) (err error) {
	log, err := os.Open(dir.Path(result.LatencyFile))
	if err != nil {
		return err
	}
	defer log.Close()
	path := dir.Path(result.MeasuredFile)
	out, err := os.Create(path)
	if err != nil {
		return err
	}
	defer func() {
		if closed := out.Close(); err == nil {
			err = closed
		}
		if err != nil {
			_ = os.Remove(path) // half of it would be worse than none
		}
	}()
	seconds := func(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }
	from := seconds(l.WarmupSeconds)
	return loadgen.MergeWindow(log, out, l.Start.Add(-from), from, from+seconds(l.MeasureSeconds))
}
