package result

import (
	"slices"
	"strings"

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
	for _, f := range Refuted(d, &r) {
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

// invalidate excludes the trial in memory. The stored record is unchanged.
func (r *Record) invalidate(w Warning) {
	w.Invalidates = true
	r.Valid = false
	r.Warnings = append(slices.Clip(r.Warnings), w)
}
