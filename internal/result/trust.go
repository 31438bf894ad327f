package result

import (
	"bytes"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/tare-mesh/tare/internal/base/regular"
	"github.com/tare-mesh/tare/internal/experiment/plan"
	"github.com/tare-mesh/tare/internal/metric"
)

// Codes of the warnings about records that cannot be trusted.
const (
	RecordContradicts = "record-contradicts"
	RecordAltered     = "record-altered"
	LatencyAltered    = "latency-altered"
)

// trusted is the record of a planned trial. It is invalid if it contradicts itself
// or differs from its manifest.
func (d *Dir) trusted(t plan.Trial) (Record, error) {
	r, sum, err := d.Record(t)
	if err != nil {
		return Record{}, err
	}
	changed, err := d.altered(t.ID, sum)
	if err != nil {
		return Record{}, err
	}
	var wrong, times []string
	for _, f := range append(Refuted(d, &r), unlogged(d, &r)...) {
		if text := f.File + ": " + f.Message; f.File == MeasuredFile || f.File == LatencyFile {
			times = append(times, text)
		} else {
			wrong = append(wrong, text)
		}
	}
	switch {
	case slices.Contains(changed, RecordFile) || slices.Contains(changed, SlicesFile):
		r.invalidate(Warning{Code: RecordAltered, Message: strings.Join(changed, ", ") + " was changed after the trial: its SHA-256 is not that of " + ManifestFile, Hint: restore})
	case len(changed) > 0:
		r.Warnings = append(r.Warnings, Warning{Code: LatencyAltered, Message: strings.Join(changed, ", ") + " was changed after the trial: latencies of this trial are withheld",
			Hint: restore, Withholds: true, Metrics: metric.From(metric.LatencyLog)})
	case len(times) > 0:
		r.Warnings = append(r.Warnings, Warning{Code: LatencyAltered, Message: strings.Join(times, "; ") + ": latencies of this trial are withheld",
			Hint: restore, Withholds: true, Metrics: metric.From(metric.LatencyLog)})
	}
	if len(wrong) > 0 {
		r.invalidate(Warning{Code: RecordContradicts, Message: "its figures contradict one another: " + strings.Join(wrong, "; "), Hint: restore})
	}
	return r, nil
}

// lastEvents is the part of the events in which an outcome is, in bytes.
const lastEvents = 256 << 10

// unlogged compares the outcome of a trial with its last events, without decoding them: quotes within a text are escaped. `tare
// verify` compares the warnings too. Missing or damaged events, such as those of an import, refute nothing.
func unlogged(d *Dir, r *Record) []Refutation {
	f, err := regular.Open(d.TrialFile(r.ID, EventsFile), 1<<40)
	if err != nil || !r.Valid {
		return nil
	}
	defer f.Close()
	if size, err := f.Seek(0, io.SeekEnd); err == nil {
		_, err = f.Seek(max(0, size-lastEvents), io.SeekStart)
		if err != nil {
			return nil
		}
	}
	last, err := io.ReadAll(io.LimitReader(f, lastEvents))
	for _, kind := range []string{KindInvalid, KindError} {
		if err == nil && bytes.Contains(last, fmt.Appendf(nil, `"kind":"%s"`, kind)) {
			return []Refutation{{EventsFile, "it has an event " + kind + ", and the trial is valid"}}
		}
	}
	return nil
}

// invalidate excludes the trial in memory. The stored record is unchanged.
func (r *Record) invalidate(w Warning) {
	w.Invalidates = true
	r.Valid = false
	r.Warnings = append(slices.Clip(r.Warnings), w)
}
