package verify

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"math"
	"path"
	"slices"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"github.com/tare-mesh/tare/internal/base/hdrlog"
	"github.com/tare-mesh/tare/internal/base/lists"
	"github.com/tare-mesh/tare/internal/experiment/mesh"
	"github.com/tare-mesh/tare/internal/load"
	"github.com/tare-mesh/tare/internal/metric"
	"github.com/tare-mesh/tare/internal/result"
)

// timeline is the content of one trial's events.
type timeline struct {
	phases []result.Event
	done   *result.Event
	cpu    map[string]int64 // of the last sample, by task, ns
	back   map[string]time.Duration
	rates  map[int]float64  // answers by second of the load
	looks  []*result.Sample // of all tasks
	nodes  []result.NodeReading
	p50    map[int]float64 // response time by second of the load, ms
	ends   []result.Event  // why the trial failed or is invalid
	// faults are the states of each, the last one of a fault last.
	faults  []result.Fault
	changes []result.Change
}

// events reads the events of a trial and compares them with its record.
func (f *findings) events(d *result.Dir, r *result.Record) {
	file := path.Join(result.TrialsDir, r.ID, result.EventsFile)
	line := timeline{cpu: map[string]int64{}, back: map[string]time.Duration{}, rates: map[int]float64{}, p50: map[int]float64{}}
	n := 0
	for e, err := range d.Events(r.ID) {
		if errors.Is(err, fs.ErrNotExist) {
			return // an import has none, but the manifest of a run lists it
		}
		if err != nil {
			f.problem(file, reason(err))
			return
		}
		if n++; e.Trial != "" && e.Trial != r.ID {
			f.problem(file, fmt.Sprintf("line %d is of trial %.80q", n, e.Trial))
			return
		}
		line.add(e)
	}
	local := d.Environment().Platform == mesh.OnLocal && !f.foreign // another version may have recorded other readings
	if line.done == nil {
		f.problem(file, "the trial is recorded, and its last event is missing")
	} else if late := line.done.Time.Sub(r.Ended); (late < 0 || late > eventSlack) && !r.Ended.IsZero() {
		f.problem(file, fmt.Sprintf("its last event is of %s, and the trial ended at %s", line.done.Time.Format(time.RFC3339Nano), r.Ended.Format(time.RFC3339Nano)))
	}
	f.samePhases(file, r, &line)
	f.outcome(file, r, &line)
	f.traces(file, r, &line, local)
	f.node(file, r, &line, local)
	f.medians(d, r, &line)
	f.judged(r, &line)
	recounted(f, d, r, &line)
	for _, t := range r.Tasks {
		if r.Disturbed() {
			break // a process that was ended starts again from zero
		}
		if back := line.back[t.ID]; back > 0 && !t.Ended && t.End.Restarts == t.Start.Restarts {
			f.problem(file, fmt.Sprintf("the CPU time of task %s decreases by %v", t.ID, back))
		}
	}
	f.answers(file, r, &line)
	switch {
	case r.Error != "" || len(line.looks) == 0 || r.Load != nil && r.Load.Slices != nil:
	case !r.Disturbed():
		f.readings(file, r, line.looks)
	case local:
		disturbed(f, file, r, line.looks)
	}
}

func (l *timeline) add(e result.Event) {
	switch e.Kind {
	case result.KindPhase:
		l.phases = append(l.phases, e)
	case result.KindDone:
		l.done = &e
	case result.KindError, result.KindInvalid:
		l.ends = append(l.ends, e)
	case result.KindFault:
		if e.Fault != nil {
			l.faults = append(l.faults, *e.Fault)
		}
	case result.KindChange:
		if e.Change != nil {
			l.changes = append(l.changes, *e.Change)
		}
	case result.KindProgress:
		if e.Progress != nil {
			l.rates[e.Progress.Second] = e.Progress.Rate
			l.p50[e.Progress.Second] = e.Progress.P50MS
		}
	case result.KindSample:
		if e.Sample == nil {
			return
		}
		if !e.Sample.Node.At.IsZero() {
			l.nodes = append(l.nodes, e.Sample.Node)
		}
		if len(e.Sample.Tasks) > 0 {
			l.looks = append(l.looks, e.Sample)
		}
		for id, reading := range e.Sample.Tasks {
			if last := l.cpu[id]; reading.CPU < last {
				l.back[id] = max(l.back[id], time.Duration(last-reading.CPU))
			}
			l.cpu[id] = reading.CPU
		}
	}
}

// eventSlack bounds the time between an event and the instant that the record has of it, which a busy machine lengthens.
const eventSlack = 5 * time.Second

// samePhases compares the phases of the record with the phases that began.
func (f *findings) samePhases(file string, r *result.Record, l *timeline) {
	for i, p := range r.Phases {
		if i >= len(l.phases) || l.phases[i].Phase != p.Name {
			f.problem(file, fmt.Sprintf("phase %d of the record is %s, and not of the events", i+1, p.Name))
			return
		}
		if began := l.phases[i].Time; p.Start.Before(began) || p.Start.Sub(began) > eventSlack {
			f.problem(file, fmt.Sprintf("phase %s began at %s, and in the record at %s", p.Name, began.Format(time.RFC3339Nano), p.Start.Format(time.RFC3339Nano)))
			return
		}
	}
}

// edgeSeconds of answers may be counted in the second beside the window: progress is
// counted by the load generator's own seconds.
const edgeSeconds = 0.5

// answers compares the answers of the record with the answers of the seconds of the window.
func (f *findings) answers(file string, r *result.Record, l *timeline) {
	if r.Error != "" || r.Load == nil || r.Load.BacklogEnd == nil || r.Load.BacklogStart == nil || r.Load.Workers > 1 {
		return
	}
	if !whole(r.Load.WarmupSeconds) || !whole(r.Load.MeasureSeconds) {
		all, seconds := 0.0, 0
		for s, rate := range l.rates {
			all, seconds = all+rate, max(seconds, s+1)
		}
		if seconds == len(l.rates) && float64(seconds) >= r.Load.WarmupSeconds+r.Load.MeasureSeconds && all < float64(r.Load.Completed) {
			f.problem(file, fmt.Sprintf("its seconds have %.0f answers in all, and load.completed is %d", all, r.Load.Completed))
		}
		return
	}
	first, n := r.Load.Window()
	late := int64(0)
	last := first + n - 1
	if r.Load.Slices != nil { // completed counts requests by their intended start, however late their answer
		late = *r.Load.BacklogStart
		for s := range l.rates {
			last = max(last, s)
		}
	}
	sum := 0.0
	for s := first; s <= last; s++ {
		rate, ok := l.rates[s]
		if !ok {
			return // the generator did not report this second
		}
		sum += rate
	}
	slack := 5 + edgeSeconds*sum/float64(max(1, n))
	if completed := float64(r.Load.Completed); sum < completed-slack || sum > completed+float64(late)+slack {
		f.problem(file, fmt.Sprintf("its seconds have %.0f answers in the measure phase, and load.completed is %d", sum, r.Load.Completed))
	}
}

// latencies compares the histograms of the measure window with the counts of the record.
func (f *findings) latencies(d *result.Dir, r *result.Record) {
	if r.Error != "" || r.Load == nil {
		return
	}
	window := hdrlog.Window{From: r.Load.WarmupSeconds, To: r.Load.WarmupSeconds + r.Load.MeasureSeconds}
	logged := hdrlog.Sums(nil)
	for _, name := range []string{result.LatencyFile, result.MeasuredFile} {
		file := path.Join(result.TrialsDir, r.ID, name)
		sums, err := hdrlog.ReadFile(d.TrialFile(r.ID, name), window, nil)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			if name == result.LatencyFile && exists(d, path.Join(result.TrialsDir, r.ID, result.MeasuredFile)) {
				f.problem(file, "it is missing, and "+result.MeasuredFile+" was made of it")
			}
			continue
		case err != nil:
			if of, ok := errors.AsType[*hdrlog.Error](err); ok {
				err = fmt.Errorf("line %d: %w", of.Line, of.Err)
			}
			f.problem(file, err.Error())
			continue
		}
		f.histograms(file, r.Load, sums)
		if name == result.LatencyFile {
			logged = sums
			continue
		}
		f.sameSums(file, logged, sums)
	}
}

// sameSums compares the sums of the measure window with the sums of the log that they were made from.
func (f *findings) sameSums(file string, logged, sums hdrlog.Sums) {
	if logged == nil {
		return // it is missing or damaged
	}
	both := maps.Clone(logged)
	maps.Copy(both, sums)
	for _, tag := range slices.Sorted(maps.Keys(both)) {
		if !hdrlog.Equal(sums[tag], logged[tag]) {
			f.problem(file, fmt.Sprintf("its histogram %q is not the sum of that of %s in the measure phase", tag, result.LatencyFile))
			return
		}
	}
}

// histograms: a log has one entry for every request of the window.
func (f *findings) histograms(file string, l *result.Load, sums hdrlog.Sums) {
	if exact := l.BacklogEnd != nil && l.Recorded > 0; !exact && (!whole(l.WarmupSeconds) || !whole(l.MeasureSeconds)) {
		return // intervals of the log are not intervals of the window
	}
	for _, class := range []load.Class{load.OK, load.Status, load.Timeout, load.Conn} {
		want := l.Classes[string(class)]
		if class == load.OK && l.Recorded > 0 {
			want = l.Recorded // the generator records fewer than it counts
		}
		got := max(sums.Total(load.TagResponse+string(class)), sums.Total(load.TagService+string(class)))
		switch {
		case got == want:
		case l.BacklogEnd == nil && math.Abs(float64(got-want)) <= math.Max(2, 0.001*float64(want)):
		case l.BacklogEnd == nil && class != load.OK: // not every generator logs failures
		default:
			f.problem(file, fmt.Sprintf("it has %d requests of class %s in the measure phase, and the record %d", got, class, want))
		}
	}
}

func whole(seconds float64) bool { return math.Abs(seconds-math.Round(seconds)) < 1e-3 }

// readings compares the tasks of a trial without slices with its samples. The readings at the edges of the measure phase are
// two of them, and each has the CPU of every plane since the one before it.
func (f *findings) readings(file string, r *result.Record, looks []*result.Sample) {
	planes := map[string]metric.Plane{}
	first, last := len(looks), -1
	for _, t := range r.Tasks {
		if planes[t.ID] = t.Plane; t.Missing != "" || t.Ended || t.Start.At.IsZero() || t.End.At.IsZero() {
			continue
		}
		start := t.Start
		start.CPU -= t.Reloaded
		begin, end := sampleOf(looks, t.ID, start), sampleOf(looks, t.ID, t.End)
		if begin < 0 {
			begin = beganIn(looks, t.ID, start)
		}
		if begin < 0 || end < 0 {
			f.problem(file, fmt.Sprintf("it has no readings of task %s from %s to %s with %v and %v of CPU time, as the record has", t.ID,
				t.Start.At.Format(time.RFC3339Nano), t.End.At.Format(time.RFC3339Nano), time.Duration(t.Start.CPU), time.Duration(t.End.CPU)))
			return
		}
		first, last = min(first, begin), max(last, end)
	}
	if first >= last {
		return
	}
	for _, id := range slices.Sorted(maps.Keys(looks[first].Tasks)) {
		if _, ends := looks[last].Tasks[id]; ends && planes[id] == "" {
			f.problem(file, fmt.Sprintf("it has task %s, which the record lacks", id))
			return
		}
	}
	for i := first + 1; i <= last; i++ {
		if plane, is, want := differs(planes, looks[i-1], looks[i]); plane != "" {
			f.problem(file, fmt.Sprintf("its samples have %.6f cores of plane %s before %s, and the tasks that the record has in it %.6f",
				want, plane, looks[i].Tasks[slices.Min(slices.Collect(maps.Keys(looks[i].Tasks)))].At.Format(time.RFC3339Nano), is))
			return
		}
	}
}

// disturbed compares the tasks of a trial with faults or changes, which end tasks and begin others, with its samples.
func disturbed(f *findings, file string, r *result.Record, looks []*result.Sample) {
	planes := map[string]metric.Plane{}
	for _, t := range r.Tasks {
		if planes[t.ID] = t.Plane; t.Missing != "" {
			continue
		}
		start := t.Start
		start.CPU -= t.Reloaded
		edges := []result.Reading{start, t.End}
		if t.Ended {
			edges = edges[:1] // its last reading is the end of its measurement
		}
		for _, edge := range edges {
			if edge.CPU > 0 && sampleOf(looks, t.ID, edge) < 0 {
				f.problem(file, fmt.Sprintf("it has no reading of task %s at %s with %v of CPU time, as the record has", t.ID, edge.At.Format(time.RFC3339Nano), time.Duration(edge.CPU)))
				return
			}
		}
	}
	for i := 1; i < len(looks); i++ {
		both := maps.Clone(planes)
		maps.DeleteFunc(both, func(id string, _ metric.Plane) bool {
			_, before := looks[i-1].Tasks[id]
			_, after := looks[i].Tasks[id]
			return !before || !after
		})
		if len(both) < len(looks[i].Tasks) {
			continue // of a task that has begun, or that the record lacks
		}
		if plane, is, want := differs(both, looks[i-1], looks[i]); plane != "" {
			f.problem(file, fmt.Sprintf("its sample %d has %.6f cores of plane %s, and the tasks that the record has in it %.6f", i+1, want, plane, is))
			return
		}
	}
}

// sampleOf is the index of the sample with a reading of a task, -1 for none.
func sampleOf(looks []*result.Sample, id string, edge result.Reading) int {
	return slices.IndexFunc(looks, func(s *result.Sample) bool {
		is, ok := s.Tasks[id]
		return ok && is.At.Equal(edge.At) && is.CPU == edge.CPU && sameCounters(is, edge)
	})
}

// beganIn is the index of the first sample with a task that began after the beginning of the measure phase, at which it had used
// nothing. It is -1 if the first sample after that instant has the task already.
func beganIn(looks []*result.Sample, id string, begin result.Reading) int {
	has := func(s *result.Sample) bool { _, ok := s.Tasks[id]; return ok }
	after := slices.IndexFunc(looks, func(s *result.Sample) bool {
		for _, r := range s.Tasks {
			if r.At.After(begin.At) {
				return true
			}
		}
		return false
	})
	if begin.CPU != 0 || after < 0 || has(looks[after]) {
		return -1
	}
	return slices.IndexFunc(looks, has)
}

// differs returns a plane whose tasks used another CPU between two samples of all tasks, in cores.
func differs(planes map[string]metric.Plane, before, after *result.Sample) (plane string, is, want float64) {
	cores := map[string]float64{}
	for id, p := range planes {
		a, ok := before.Tasks[id]
		b, ok2 := after.Tasks[id]
		if !ok || !ok2 || !b.At.After(a.At) {
			return "", 0, 0
		}
		cores[string(p)] += float64(b.CPU-a.CPU) / float64(b.At.Sub(a.At))
	}
	if len(after.Tasks) != len(planes) {
		return "", 0, 0
	}
	for _, p := range slices.Sorted(maps.Keys(after.Cores)) {
		if math.Abs(cores[p]-after.Cores[p]) > 1e-6*(1+math.Abs(after.Cores[p])) {
			return p, cores[p], after.Cores[p]
		}
	}
	return "", 0, 0
}

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
			seen, samples := map[int64]bool{}, 0
			for _, s := range l.looks {
				if is := s.Tasks[t.ID]; is.RSS > 0 {
					seen[is.RSS], samples = true, samples+1
				}
			}
			other := lists.Count(t.Memory, func(m result.MemoryReading) bool { return !seen[m.RSS] })
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
func (f *findings) judged(r *result.Record, l *timeline) {
	if f.judge == nil || r.Error != "" || r.Load == nil {
		return
	}
	file := path.Join(result.TrialsDir, r.ID, result.RecordFile)
	checked, found := f.judge(r, f.rows, medianOf(r, l))
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
