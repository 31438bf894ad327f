package verify

import (
	"fmt"
	"maps"
	"math"
	"path"
	"slices"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"github.com/tare-mesh/tare/internal/base/hdrlog"
	"github.com/tare-mesh/tare/internal/load"
	"github.com/tare-mesh/tare/internal/metric"
	"github.com/tare-mesh/tare/internal/result"
)

// outcome compares why a trial failed or is invalid. Its events have the error, or the first warning that invalidates it.
func (f *findings) outcome(file string, r *result.Record, l *timeline) {
	for _, e := range l.ends {
		switch {
		case r.Valid:
			f.problem(file, fmt.Sprintf("it has an event %s, and the trial is valid: %.200q", e.Kind, e.Message))
			return
		case e.Kind == result.KindError && r.Error != e.Message:
			f.problem(file, fmt.Sprintf("it has another error than the record: %.200q", e.Message))
			return
		case e.Kind == result.KindInvalid && !slices.ContainsFunc(r.Warnings, func(w result.Warning) bool { return w.Invalidates && w.Message == e.Message }):
			f.problem(file, fmt.Sprintf("the record lacks the warning that made the trial invalid: %.200q", e.Message))
			return
		}
	}
	if len(l.ends) == 0 && !r.Valid {
		f.problem(file, "it has no event why the trial is invalid, as the record has it")
	}
}

// traces finds readings of a task's memory that no sample has.
func (f *findings) traces(file string, r *result.Record, l *timeline, local bool) {
	if r.Disturbed() && !local || r.Error != "" {
		return
	}
	for _, t := range r.Tasks {
		if t.Missing != "" || t.Ended || len(t.Memory) == 0 || t.Plane == metric.Harness {
			continue
		}
		if last, end := t.Memory[len(t.Memory)-1], t.End.At.Sub(t.Start.At).Seconds(); local && t.End.RSS > 0 && (math.Abs(last.Seconds-end) > 1e-6 || last.CPU > 0 && last.CPU != t.End.CPU) {
			f.problem(file, fmt.Sprintf("the trace of task %s ends with %v of CPU time after %v s, and its last reading has %v after %v s", t.ID, time.Duration(last.CPU), last.Seconds, time.Duration(t.End.CPU), end))
			return
		}
		if r.Load != nil && r.Load.Slices != nil { // readings have times of slices, and some are in no sample
			seen, samples, other := map[int64]bool{}, 0, 0
			for _, s := range l.looks {
				if is := s.Tasks[t.ID]; is.RSS > 0 {
					seen[is.RSS], samples = true, samples+1
				}
			}
			for _, m := range t.Memory {
				if !seen[m.RSS] {
					other++
				}
			}
			if samples > 1 && len(t.Memory) > 1 && 2*other > len(t.Memory) {
				f.problem(file, fmt.Sprintf("its samples of task %s do not have %d of %d readings of memory of the record", t.ID, other, len(t.Memory)))
				return
			}
			continue
		}
		for _, m := range t.Memory[:len(t.Memory)-1] { // the last one is the reading at the end
			at := t.Start.At.Add(time.Duration(math.Round(m.Seconds * 1e9)))
			near, found := false, false
			for _, s := range l.looks {
				is, ok := s.Tasks[t.ID]
				if !ok || is.At.Sub(at).Abs() > time.Microsecond {
					continue
				}
				near = true
				found = found || is.RSS == m.RSS && (m.CPU == 0 || is.CPU == m.CPU)
			}
			if (near || local) && !found {
				f.problem(file, fmt.Sprintf("it has no sample of task %s %.3f s after the first reading with the %d bytes of memory and %v of CPU time of the record", t.ID, m.Seconds, m.RSS, time.Duration(m.CPU)))
				return
			}
		}
	}
}

// node compares the readings of the machine with those of the samples at the same instants. A trial alone on this machine has
// samples at both edges.
func (f *findings) node(file string, r *result.Record, l *timeline, local bool) {
	if r.Node == nil || r.Error != "" {
		return
	}
	for _, edge := range []result.NodeReading{r.Node.Start, r.Node.End} {
		if same := func(is result.NodeReading) bool { return is.At.Equal(edge.At) }; local && len(l.nodes) > 0 && !slices.ContainsFunc(l.nodes, same) {
			f.problem(file, fmt.Sprintf("it has no sample of the machine at %s, as the record has", edge.At.Format(time.RFC3339Nano)))
			return
		}
		for _, is := range l.nodes {
			if is.At.Equal(edge.At) && (is.Busy != edge.Busy || is.Steal != edge.Steal) {
				f.problem(file, fmt.Sprintf("its sample at %s has %v of CPU time of the machine and %v of steal time, and the record %v and %v", edge.At.Format(time.RFC3339Nano),
					time.Duration(is.Busy), time.Duration(is.Steal), time.Duration(edge.Busy), time.Duration(edge.Steal)))
				return
			}
		}
	}
}

// ownGenerator is the load generator that writes a latency log and the medians of seconds in every trial.
const ownGenerator = "tare"

const (
	// medianShare bounds the difference of the median of a second in events and log.
	medianShare = 0.25
	// promptMS is the median below which nearly all answers are of the second of their requests.
	promptMS = 20
	// medianCount is the number of answers above which a second's median is compared.
	medianCount = 20
)

// medians compares the latency log with the medians that the load reported by the second, and its beginning with the load's.
func (f *findings) medians(d *result.Dir, r *result.Record, l *timeline) {
	if r.Error != "" || r.Load == nil || r.Load.BacklogEnd == nil || r.Load.Workers > 1 || r.Load.Generator != ownGenerator {
		return
	}
	file := path.Join(result.TrialsDir, r.ID, result.LatencyFile)
	in, err := hdrlog.Open(d.TrialFile(r.ID, result.LatencyFile))
	if err != nil {
		return // [findings.latencies] has the finding
	}
	defer in.Close()
	compared, other := 0, 0
	err = hdrlog.ReadSeconds(in, func(second int, tag string, h *hdrhistogram.PackedHistogram) error {
		if want := l.p50[second]; tag == load.TagResponse+string(load.OK) && want > 0 && want < promptMS && h.TotalCount() >= medianCount && float64(h.TotalCount()) == l.rates[second] {
			compared++
			if got := float64(hdrlog.Dense(h).ValueAtQuantile(50)) / 1e6; math.Abs(got-want) > medianShare*want {
				other++
			}
		}
		return nil
	})
	if err == nil && compared > 0 && 2*other > compared {
		f.problem(file, fmt.Sprintf("the medians of %d of %d seconds are not those that the load reported", other, compared))
	}
}

// judged makes the validity checks of a run again that need its record, slices and events only.
func (f *findings) judged(d *result.Dir, r *result.Record, l *timeline) {
	if f.judge == nil || r.Error != "" || r.Load == nil {
		return
	}
	var rows []result.Slice
	if r.Load.Slices != nil {
		rows, _ = result.ReadSlices(d.TrialFile(r.ID, result.SlicesFile)) // [findings.slices] has the finding
	}
	file := path.Join(result.TrialsDir, r.ID, result.RecordFile)
	checked, found := f.judge(r, rows, medianOf(r, l))
	for _, code := range checked {
		i := slices.IndexFunc(found, func(w result.Warning) bool { return w.Code == code })
		j := slices.IndexFunc(r.Warnings, func(w result.Warning) bool { return w.Code == code })
		switch {
		case i >= 0 && j < 0:
			f.judgement(file, fmt.Sprintf("it lacks warning %s, which its figures give: %s", code, found[i].Message))
		case i < 0 && j >= 0:
			f.judgement(file, fmt.Sprintf("it has warning %s, which its figures do not give: %.200q", code, r.Warnings[j].Message))
		case i >= 0 && (found[i].Invalidates != r.Warnings[j].Invalidates || found[i].Withholds != r.Warnings[j].Withholds):
			f.judgement(file, fmt.Sprintf("its warning %s has another effect than its figures give: %s", code, found[i].Message))
		}
	}
}

// judgement is a problem, but for a record of another version of tare, whose rules may differ.
func (f *findings) judgement(file, message string) {
	if f.foreign {
		f.note(file, message)
		return
	}
	f.problem(file, message)
}

// medianOf is the median of the medians of the seconds of the measure phase. Seconds that a phase has in part may be in it or
// not: then it is the longest median, with which a limit that depends on it is not checked.
func medianOf(r *result.Record, l *timeline) time.Duration {
	first, n := r.Load.Window()
	var all []float64
	for second, p50 := range l.p50 {
		if p50 > 0 && second >= first && second < first+n {
			all = append(all, p50)
		}
	}
	if len(all) == 0 {
		return 0
	}
	slices.Sort(all)
	if !whole(r.Load.WarmupSeconds) || !whole(r.Load.MeasureSeconds) {
		return time.Duration(slices.Max(slices.Collect(maps.Values(l.p50))) * float64(time.Millisecond))
	}
	return time.Duration(all[len(all)/2] * float64(time.Millisecond))
}

// sameCounters reports whether a sample has the other counters of a reading. Some readings lack some.
func sameCounters(sample, reading result.Reading) bool {
	same := func(a, b int64) bool { return a == 0 || b == 0 || a == b }
	pss := sample.PSS == nil || reading.PSS == nil || *sample.PSS == *reading.PSS
	return pss && same(sample.RSS, reading.RSS) && same(sample.Voluntary, reading.Voluntary) && same(sample.Involuntary, reading.Involuntary)
}
