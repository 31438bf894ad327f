package figures

import (
	"cmp"
	"math"
	"slices"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"github.com/tare-mesh/tare/internal/base/hdrlog"
	"github.com/tare-mesh/tare/internal/base/lists"
	"github.com/tare-mesh/tare/internal/metric"
	"github.com/tare-mesh/tare/internal/result"
	"github.com/tare-mesh/tare/internal/stats"
)

// Trend is a quantity of a trial over its soak. Times are seconds of load: a trial of a round has the load in its own slices.
type Trend struct {
	Metric string       `json:"metric"` // such as memory_mib/data
	Points [][2]float64 `json:"points"` // seconds of load, and the metric's value
	// PerHour is the slope of the second half, per hour of load. The interval is about the time series of this deployment
	// alone: others may differ.
	PerHour stats.Interval `json:"per_hour"`
}

const (
	// soakWindows is the number of parts of a soak in which CPU and response times are taken together.
	soakWindows = 24
	// windowSlices is the least number of own slices in a window of CPU. Its answers and its CPU time are cut at places up to a slice
	// apart.
	windowSlices = 10
	// trendPoints is the least number of points in the second half that a trend is taken from.
	trendPoints = 5
)

// trendMetrics are the metrics of slopes by the metrics of their quantities.
var trendMetrics = map[string]string{metric.CPUPerRequest: metric.CPUGrowth, metric.Latency: metric.LatencyGrowth}

// trendFigures returns the trends of a trial with the latency log at path, and adds their slopes to the figures. Memory has its
// slopes from [growthFigures].
func trendFigures(f *figures, r *result.Record, path string, confidence float64) (trends []Trend) {
	seconds := measureSeconds(r.Load)
	if r.Error != "" || seconds <= 0 {
		return nil
	}
	perLoad := dilution(r.Load, seconds)
	add := func(base, part string, points [][2]float64) {
		name := metric.Of(base, part)
		for i := range points {
			points[i][0] /= perLoad
		}
		x, y := secondHalf(points)
		if _, known := f.values[name]; !known || len(x) < trendPoints {
			return
		}
		slope := stats.Trend(x, y, confidence).Interval
		trends = append(trends, Trend{Metric: name, Points: points, PerHour: slope.Times(3600)})
		if of, ok := trendMetrics[base]; ok {
			f.set(metric.Of(of, part), slope.Estimate*3600)
		}
	}
	windows := readWindows(path, r.Load, seconds)
	together := windows
	if own := r.Load.Slices; own != nil && len(windows) > 0 {
		least := windowSlices * own.LengthSeconds * perLoad
		together = joined(windows, int(math.Ceil(least*float64(len(windows))/seconds)))
	}
	for _, p := range metric.Parts() {
		if !isIdlePart(p) || r.Load == nil {
			continue
		}
		add(metric.Memory, p.Name, MemoryCourse(r, p))
		add(metric.CPUPerRequest, p.Name, cpuCourse(r, p, together, seconds))
	}
	for _, q := range []struct {
		part string
		q    float64
	}{{"p50", 50}, {"p99", 99}} {
		add(metric.Latency, q.part, latencyCourse(windows, q.q))
	}
	return trends
}

// MemoryCourse adds up the resident memory of a part's tasks, MiB, by the seconds of the measure phase. Its times are the
// readings of the task that has fewest. It is empty if one of them has none.
func MemoryCourse(r *result.Record, p metric.Part) (course [][2]float64) {
	of := tasksOf(r, p)
	if len(of) == 0 {
		return nil
	}
	fewest := slices.MinFunc(of, func(a, b *result.TaskUsage) int { return cmp.Compare(len(a.Memory), len(b.Memory)) })
	for _, m := range fewest.Memory {
		sum := lists.Sum(of, func(t *result.TaskUsage) float64 { return memoryAt(t, m.Seconds) })
		course = append(course, [2]float64{math.Round(m.Seconds*100) / 100, sum / mib})
	}
	return course
}

// memoryAt is the resident memory of a task at a second of the measure phase, bytes, between its two nearest readings.
func memoryAt(t *result.TaskUsage, second float64) float64 {
	before := t.Memory[0]
	for _, m := range t.Memory {
		if passed := m.Seconds - before.Seconds; m.Seconds >= second && passed > 0 {
			return float64(before.RSS) + float64(m.RSS-before.RSS)*max(0, second-before.Seconds)/passed
		}
		before = m
	}
	return float64(before.RSS)
}

// window is a part of the measure phase, in seconds from its start.
type window struct {
	from, to  float64
	responses *hdrhistogram.PackedHistogram // nil without an answer
	answers   int64
}

func (w *window) middle() float64 { return (w.from + w.to) / 2 }

// readWindows divides the measure phase into windows of whole seconds of the log. There are none if the log cannot be read:
// [latencyFigures] has the warning.
func readWindows(path string, l *result.Load, seconds float64) []window {
	n := min(soakWindows, int(seconds))
	windows := make([]window, n)
	for i := range windows {
		windows[i].from, windows[i].to = math.Round(float64(i)*seconds/float64(n)), math.Round(float64(i+1)*seconds/float64(n))
	}
	log, err := hdrlog.Open(path)
	if err != nil {
		return nil
	}
	defer log.Close()
	err = hdrlog.ReadSeconds(log, func(second int, tag string, h *hdrhistogram.PackedHistogram) error {
		at := float64(second) + 0.5 - l.WarmupSeconds
		for i := range windows {
			w := &windows[i]
			switch {
			case tag != latencies[0].tag || at < w.from || at >= w.to:
			case w.responses == nil:
				w.responses, w.answers = h, h.TotalCount()
			default:
				w.answers += h.TotalCount()
				return hdrlog.Add(w.responses, h)
			}
		}
		return nil
	})
	if err != nil {
		return nil
	}
	return windows
}

// joined joins each n windows to one, without their response times. Windows that are left over at the end are left out.
func joined(windows []window, n int) (all []window) {
	for group := range slices.Chunk(windows, n) {
		if len(group) < n {
			break
		}
		one := window{from: group[0].from, to: group[n-1].to}
		for _, w := range group {
			one.answers += w.answers
		}
		all = append(all, one)
	}
	return all
}

// latencyCourse is a percentile of the response time in each window, ms. A window with too few answers for it has none.
func latencyCourse(windows []window, percentile float64) (course [][2]float64) {
	for i := range windows {
		w := &windows[i]
		if w.responses != nil && float64(w.answers) >= math.Round(tailSamples/(1-percentile/100)) {
			course = append(course, [2]float64{w.middle(), float64(w.responses.ValueAtPercentile(percentile)) / latencies[0].perUnit})
		}
	}
	return course
}

// cpuCourse is the CPU time of a part's tasks per answer in each window, µs. It is empty if the CPU of one of them is unknown.
func cpuCourse(r *result.Record, p metric.Part, windows []window, seconds float64) (course [][2]float64) {
	of := tasksOf(r, p)
	for i := range windows {
		w := &windows[i]
		if w.answers == 0 || of == nil {
			continue
		}
		var ns float64
		for _, t := range of {
			from, ok := cpuAt(t, w.from)
			to, ok2 := cpuAt(t, w.to)
			if !ok {
				return nil
			}
			if !ok2 { // after the last reading
				return course
			}
			if ns += to - from; t.IdleCPU != nil {
				ns -= float64(*t.IdleCPU) * (w.to - w.from) / seconds
			}
		}
		course = append(course, [2]float64{w.middle(), ns / 1e3 / float64(w.answers)})
	}
	return course
}

// cpuAt is the CPU time of a task at a second of the measure phase, ns, between its two nearest readings.
func cpuAt(t *result.TaskUsage, second float64) (ns float64, ok bool) {
	before := result.MemoryReading{CPU: t.Start.CPU}
	for _, m := range t.Memory {
		if m.CPU == 0 {
			continue
		}
		// The last reading may precede the end of the phase a little.
		if last := second - m.Seconds; last <= 0 || last < 0.5 && m == t.Memory[len(t.Memory)-1] {
			passed := m.Seconds - before.Seconds
			if passed <= 0 {
				return float64(m.CPU), true
			}
			return float64(before.CPU) + float64(m.CPU-before.CPU)*(second-before.Seconds)/passed, true
		}
		before = m
	}
	return 0, false
}

// tasksOf are the tasks of a part that were read.
func tasksOf(r *result.Record, p metric.Part) (of []*result.TaskUsage) {
	for i := range r.Tasks {
		if t := &r.Tasks[i]; t.Missing == "" && slices.Contains(p.Planes, t.Plane) {
			of = append(of, t)
		}
	}
	return of
}

// growthReadings is the least number of readings that a slope is taken from.
const growthReadings = 3

// settling is how long the heap of a program that has begun grows to its working size. Its growth is then not of the load.
const settling = 15 * time.Second

// growthFigures adds the growth of resident memory at the end of the measure phase, per minute of load and per 1000
// requests. Programs also grow while they warm up, so the first half of the phase is left out.
func growthFigures(f *figures, r *result.Record, seconds float64) {
	if !slices.ContainsFunc(r.Tasks, func(t result.TaskUsage) bool { return len(t.Memory) > 0 }) || isYoung(r) {
		return // not read, or of the first seconds of the programs
	}
	planes := planeSums(r.Tasks, func(t result.TaskUsage) (float64, bool) { return growth(t) })
	for _, p := range metric.Parts() {
		perSecond, ok := part(p, planes)
		if !ok || !isIdlePart(p) {
			continue
		}
		f.set(metric.Of(metric.MemoryGrowth, p.Name), perSecond*dilution(r.Load, seconds)*60/mib)
		if r.Answered() > 0 && seconds > 0 {
			f.set(metric.Of(metric.MemoryGrowthPerRequest, p.Name), perSecond*seconds/float64(r.Answered())*1000/1024)
		}
	}
}

// MemoryGrowth is the growth of resident memory of tasks of a trial at the end of the measure phase, MiB per minute of load.
// It is not ok if a task has few readings, or has just begun.
func MemoryGrowth(r *result.Record, tasks []result.TaskUsage) (perMinute float64, ok bool) {
	var sum float64
	if isYoung(r) {
		return 0, false
	}
	for _, t := range tasks {
		perSecond, ok := growth(t)
		if !ok {
			return 0, false
		}
		sum += perSecond
	}
	return sum * dilution(r.Load, measureSeconds(r.Load)) * 60 / mib, len(tasks) > 0
}

// isYoung reports whether the second half of the measure phase begins within [settling] after the deployment. Records without
// phases are of programs that ran before.
func isYoung(r *result.Record) bool {
	i := slices.IndexFunc(r.Phases, func(p result.Phase) bool { return p.Name == "deploy" })
	if i < 0 || r.Load == nil {
		return false
	}
	half := r.Load.Start.Add(time.Duration(r.Load.MeasureSeconds / 2 * float64(time.Second)))
	return half.Sub(r.Phases[i].End) < settling
}

// growth is the least-squares slope of a task's resident memory over the second half of its readings' time, bytes per
// second. It is not ok with few readings.
func growth(t result.TaskUsage) (perSecond float64, ok bool) {
	points := make([][2]float64, len(t.Memory))
	for i, m := range t.Memory {
		points[i] = [2]float64{m.Seconds, float64(m.RSS)}
	}
	x, y := secondHalf(points)
	if len(x) < growthReadings {
		return 0, false
	}
	_, perSecond = stats.Regression(x, y)
	return perSecond, !math.IsNaN(perSecond)
}

// secondHalf returns the points in the second half of their time.
func secondHalf(points [][2]float64) (x, y []float64) {
	if len(points) == 0 {
		return nil, nil
	}
	half := (points[0][0] + points[len(points)-1][0]) / 2
	for _, p := range points {
		if p[0] >= half {
			x, y = append(x, p[0]), append(y, p[1])
		}
	}
	return x, y
}

func isIdlePart(p metric.Part) bool { return slices.Contains(metric.IdleParts, p.Name) }
