package figures

import (
	"math"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/HdrHistogram/hdrhistogram-go"

	"github.com/tare-mesh/tare/internal/experiment/mesh"
	"github.com/tare-mesh/tare/internal/load"
	"github.com/tare-mesh/tare/internal/metric"
	"github.com/tare-mesh/tare/internal/result"
	"github.com/tare-mesh/tare/test/must"
)

// rising writes an interval log of 100 answers a second after 5 s of warm-up. Those of second s take 2+s ms.
func rising(t *testing.T, seconds int) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "latency.hdr")
	f := must.Get(os.Create(path))(t)
	defer f.Close()
	log := hdrhistogram.NewHistogramLogWriter(f)
	for i := range seconds {
		h := hdrhistogram.New(1000, 60e9, 4)
		_ = h.RecordValues(int64(2+i)*1e6, 100)
		h.SetTag(load.TagResponse + string(load.OK))
		h.SetStartTimeMs(int64(5+i) * 1000)
		h.SetEndTimeMs(int64(6+i) * 1000)
		must.OK(t, log.OutputIntervalHistogram(h))
	}
	return path
}

// A soak of 240 s in which the trial had the load for a quarter of the time, 150·0.4 s. Times are of that load.
func TestTrendsByHand(t *testing.T) {
	r := handRecord()
	r.Load.MeasureSeconds, r.Load.Slices = 240, &result.OwnSlices{Count: 150, LengthSeconds: 0.4}
	r.Tasks = r.Tasks[:1]
	for s := 10.0; s <= 240; s += 10 { // 0.1 MiB a second, and CPU of 1 ms·s²
		r.Tasks[0].Memory = append(r.Tasks[0].Memory, result.MemoryReading{Seconds: s, RSS: int64((50 + s/10) * mib), CPU: r.Tasks[0].Start.CPU + int64(1e6*s*s)})
	}
	memory, cpu, p50 := metric.Of(metric.Memory, "app"), metric.Of(metric.CPUPerRequest, "app"), metric.Of(metric.Latency, "p50")
	f := &figures{values: map[string]float64{memory: 1, cpu: 1, p50: 1}}
	trends := map[string]Trend{}
	for _, x := range trendFigures(f, &r, rising(t, 240), 0.95) {
		trends[x.Metric] = x
	}
	// 24 windows of 10 s. Own slices of 0.4 s need 10·0.4·4 = 16 s: two windows are joined for CPU.
	for name, want := range map[string]struct {
		points                    int
		at, first, end, last, per float64
	}{
		memory: {24, 10 / 4.0, 51, 240 / 4.0, 74, 0.1 * 4 * 3600},
		// In 20 s, 1 ms·(b²-a²) is 40 ms by the middle, over 2,000 answers: 20 µs by the middle.
		cpu: {12, 10 / 4.0, 200, 230 / 4.0, 4600, 20 * 4 * 3600},
		// The middle answer of 10 s takes 6 ms in the first.
		p50: {24, 5 / 4.0, 6, 235 / 4.0, 236, 1 * 4 * 3600},
	} {
		x, ok := trends[name]
		if !ok || len(x.Points) != want.points || math.Abs(x.Points[0][0]-want.at) > 1e-9 || math.Abs(x.Points[0][1]-want.first) > 1e-3*want.first {
			t.Errorf("%s: %+v, want %+v", name, x, want)
		}
		if last := x.Points[len(x.Points)-1]; math.Abs(last[0]-want.end) > 1e-9 || math.Abs(last[1]-want.last) > 1e-3*want.last {
			t.Errorf("%s ends with %v, want %v at %v", name, last, want.last, want.end)
		}
		if math.Abs(x.PerHour.Estimate-want.per) > 1e-3*want.per {
			t.Errorf("%s changes by %v an hour, want %v", name, x.PerHour.Estimate, want.per)
		}
	}
	for name, want := range map[string]float64{metric.Of(metric.CPUGrowth, "app"): 20 * 4 * 3600, metric.Of(metric.LatencyGrowth, "p50"): 4 * 3600} {
		of := map[string]string{metric.Of(metric.CPUGrowth, "app"): cpu, metric.Of(metric.LatencyGrowth, "p50"): p50}[name]
		if got := f.values[name]; math.Abs(got-want) > 1e-3*want || math.Abs(got-trends[of].PerHour.Estimate) > 1e-12*want {
			t.Errorf("%s is %v, want %v", name, got, want)
		}
	}
	if _, known := f.values[metric.Of(metric.MemoryGrowth, "app")]; known || len(trends) != 3 {
		t.Errorf("%d trends, %v", len(trends), f.values)
	}
}

// A trend needs five points in the second half: nine points of a course have them, and eight have four.
func TestTrendOfFewPoints(t *testing.T) {
	for n, want := range map[int]int{8: 0, 9: 1} {
		r := handRecord()
		r.Tasks = r.Tasks[:1]
		for s := range n {
			r.Tasks[0].Memory = append(r.Tasks[0].Memory, result.MemoryReading{Seconds: float64(s + 1), RSS: int64(s+1) * mib})
		}
		f := &figures{values: map[string]float64{metric.Of(metric.Memory, "app"): 1}}
		if got := trendFigures(f, &r, "", 0.95); len(got) != want {
			t.Errorf("%d points: %d trends, want %d", n, len(got), want)
		}
	}
	r := handRecord()
	r.Error = "x"
	if got := trendFigures(&figures{}, &r, "", 0.95); got != nil {
		t.Errorf("a failed trial has trends: %+v", got)
	}
}

// The memory of tasks that were read at other times lies on the line through their readings.
func TestMemoryCourseByHand(t *testing.T) {
	task := func(points ...[2]float64) (u result.TaskUsage) {
		u.Task = mesh.Task{Plane: metric.App}
		for _, p := range points {
			u.Memory = append(u.Memory, result.MemoryReading{Seconds: p[0], RSS: int64(p[1] * mib)})
		}
		return u
	}
	r := &result.Record{Tasks: []result.TaskUsage{
		task([2]float64{0, 100}, [2]float64{2, 110}, [2]float64{4, 130}, [2]float64{6, 150}),
		task([2]float64{1, 10}, [2]float64{3, 14}, [2]float64{5.126, 20}),
		task([2]float64{1.5, 1}, [2]float64{2.5, 3}, [2]float64{4, 6}, [2]float64{4.5, 7}),
	}}
	want := [][2]float64{{1, 105 + 10 + 1}, {3, 120 + 14 + 4}, {5.13, 130 + 20*1.126/2 + 20 + 7}} // the last reading remains
	got := MemoryCourse(r, metric.Part{Planes: []metric.Plane{metric.App}})
	if len(got) != len(want) {
		t.Fatalf("%v, want %v", got, want)
	}
	for i := range want {
		if math.Abs(got[i][0]-want[i][0]) > 1e-9 || math.Abs(got[i][1]-want[i][1]) > 1e-5 {
			t.Errorf("point %d: %v, want %v", i, got[i], want[i])
		}
	}
}

func TestCoursesByHand(t *testing.T) {
	windows := []window{{from: 0, to: 2, answers: 10}, {from: 2, to: 4}, {from: 4, to: 6, answers: 20}, {from: 6, to: 8, answers: 5}, {from: 8, to: 10, answers: 1}}
	if got := joined(windows, 2); len(got) != 2 || got[0] != (window{from: 0, to: 4, answers: 10}) || got[1] != (window{from: 4, to: 8, answers: 25}) {
		t.Errorf("joined: %+v", got)
	}
	idle := int64(1e6) // in 10 s
	task := result.TaskUsage{Task: mesh.Task{Plane: metric.App}, IdleCPU: &idle, Memory: []result.MemoryReading{{Seconds: 2, CPU: 2e6}, {Seconds: 4, CPU: 3e6}, {Seconds: 6, CPU: 9e6}}}
	other := result.TaskUsage{Task: mesh.Task{Plane: metric.App}, Memory: []result.MemoryReading{{Seconds: 2, CPU: 1e6}, {Seconds: 6, CPU: 3e6}}}
	// 2 ms less 0.2 idle and 1 ms for 10 answers. 6 ms less 0.2 and 1 ms for 20. Later there is no reading.
	want := [][2]float64{{1, 280}, {5, 340}}
	if got := cpuCourse(&result.Record{Tasks: []result.TaskUsage{task, other}}, metric.Part{Planes: []metric.Plane{metric.App}}, windows, 10); !slices.EqualFunc(got, want, func(a, b [2]float64) bool {
		return a[0] == b[0] && math.Abs(a[1]-b[1]) < 1e-9
	}) {
		t.Errorf("CPU %v, want %v", got, want)
	}
	h := hdrhistogram.NewPacked(1000, 60e9, 3)
	_ = h.RecordValues(3e6, 1)
	for answers, want := range map[int64]int{19: 0, 20: 1, 999: 0, 1000: 1} { // ten beyond the median, or beyond 99 %
		percentile := 50.0
		if answers > 20 {
			percentile = 99
		}
		got := latencyCourse([]window{{from: 1, to: 3, answers: answers, responses: h}}, percentile)
		if len(got) != want || want == 1 && (got[0][0] != 2 || math.Abs(got[0][1]-3) > 0.01) {
			t.Errorf("%d answers: %v", answers, got)
		}
	}
	x, y := secondHalf([][2]float64{{0, 1}, {3, 2}, {4, 3}, {5, 4}, {8, 5}})
	if !slices.Equal(x, []float64{4, 5, 8}) || !slices.Equal(y, []float64{3, 4, 5}) {
		t.Errorf("second half: %v, %v", x, y)
	}
}
