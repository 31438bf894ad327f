package result

import (
	"bytes"
	"encoding/json"
	"fmt"

	"github.com/tare-mesh/tare/internal/base/regular"
	"github.com/tare-mesh/tare/internal/metric"
)

// maxSearched bounds the events that every reader searches, in bytes. `tare verify` decodes events of any size.
const maxSearched = 1 << 20

// unlogged finds what a record has and its events lack, without decoding them: an event that the trial is invalid, and the
// readings of tasks at the edges of the measure phase. Trials with slices, faults or reloads have other readings.
func unlogged(d *Dir, r *Record) (all []Refutation) {
	if r.Error != "" || r.Load == nil {
		return nil
	}
	text, err := regular.ReadFile(d.TrialFile(r.ID, EventsFile), maxSearched)
	if err != nil || len(text) == 0 {
		return nil // an import has none
	}
	if kind := []byte(`"kind":"` + KindInvalid + `"`); r.Valid && bytes.Contains(text, kind) {
		all = append(all, Refutation{EventsFile, "it has an event " + KindInvalid + ", and the trial is valid"})
	}
	if r.Load.Slices != nil || r.Disturbed() || !bytes.Contains(text, []byte(`"kind":"`+KindSample+`"`)) {
		return all
	}
	for _, t := range r.Tasks {
		if t.Missing != "" || t.Ended || t.Reloaded != 0 || t.End.Restarts != t.Start.Restarts || t.Start.CPU == 0 || t.Plane == metric.Node || t.Start.At.IsZero() {
			continue
		}
		for _, edge := range []Reading{t.Start, t.End} {
			at, err := json.Marshal(edge.At)
			reading := fmt.Appendf(nil, `"at":%s,"cpu":%d`, at, edge.CPU)
			if edge.RSS > 0 {
				reading = fmt.Appendf(reading, `,"rss":%d`, edge.RSS)
			}
			if err == nil && !bytes.Contains(text, append(reading, ',')) && !bytes.Contains(text, append(reading, '}')) {
				return append(all, Refutation{EventsFile, fmt.Sprintf("it has no reading of task %s at %s with the CPU time and memory of the record", t.ID, at)})
			}
		}
	}
	return all
}
