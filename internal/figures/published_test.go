package figures

import (
	"math"
	"testing"

	"github.com/HdrHistogram/hdrhistogram-go"

	"github.com/tare-mesh/tare/internal/experiment/mesh"
	"github.com/tare-mesh/tare/internal/metric"
	"github.com/tare-mesh/tare/internal/result"
)

// A spectrum of 26 lines of 4 requests, 1 to 26 ms. The 52nd of 104 is in line 13, the 94th in line 24, and the 103rd in line 26.
func spectrum(lines int) result.Latency {
	d := result.Latency{Of: "response", Count: int64(4 * lines)}
	for i := range lines {
		d.Buckets = append(d.Buckets, result.Bucket{LowMS: float64(i), HighMS: float64(i + 1), Count: 4})
	}
	return d
}

func TestSpectrumByHand(t *testing.T) {
	d := spectrum(26)
	for q, want := range map[float64]float64{0.5: 13, 0.501: 14, 0.9: 24, 0.9890625: 26, 1: 26} {
		if got, ok := spectrumAt(d, q); !ok || got != want {
			t.Errorf("%v: %v ms, want %v", q, got, want)
		}
	}
	for lines, ok := range map[int]bool{24: false, 25: true} { // fewer lines are equal steps
		if _, known := spectrumAt(spectrum(lines), 0.5); known != ok {
			t.Errorf("%d lines: known %v", lines, known)
		}
	}
	d.Count++
	if _, known := spectrumAt(d, 0.5); known {
		t.Error("a spectrum that lacks a request is used")
	}
}

// Medians of 10, 12, 14 and 100 ms have the mean 34 and the deviation 38.1: 100 is beyond it.
func TestPodMeanByHand(t *testing.T) {
	of := func(all ...float64) (l result.Load) {
		for _, ms := range all {
			l.Published = append(l.Published, result.Latency{Of: "response", Quantiles: []result.Quantile{{Q: 0.5, MS: ms}, {Q: 0.99, MS: 2 * ms}}})
		}
		l.Generator = "oha"
		return l
	}
	l := of(10, 12, 14, 100)
	f := &figures{values: map[string]float64{}}
	publishedLatency(f, &l)
	same(t, f.values, map[string]float64{metric.Latency + "/p50": 12, metric.Latency + "/p99": 24})
	if len(f.values) != 2 {
		t.Errorf("%v", f.values)
	}
	mean, sd := moments(series{10, 12, 14, 100})
	if math.Abs(mean-34) > 1e-12 || math.Abs(sd-math.Sqrt((24*24+22*22+20*20+66*66)/4.0)) > 1e-9 {
		t.Errorf("mean %v, deviation %v", mean, sd)
	}
}

// One generator without counts has its quantiles. Of several only the largest value is known.
func TestWordsOnlyByHand(t *testing.T) {
	small, large, mean := 8.0, 9.0, 2.5
	one := result.Latency{Of: "service", MaxMS: &small, MeanMS: &mean, Quantiles: []result.Quantile{{Q: 0.5, MS: 2}, {Q: 0.75, MS: 3}}}
	f := &figures{values: map[string]float64{}}
	if !wordsOnly(f, &result.Load{Published: []result.Latency{one}}) {
		t.Error("no figures")
	}
	base := metric.ServiceTime
	same(t, f.values, map[string]float64{base + "/p50": 2, base + "/mean": 2.5, base + "/max": 8})
	if len(f.values) != 3 {
		t.Errorf("%v", f.values)
	}
	other := one
	other.MaxMS = &large
	f = &figures{values: map[string]float64{}}
	wordsOnly(f, &result.Load{Published: []result.Latency{other, one}})
	same(t, f.values, map[string]float64{base + "/max": 9})
	if len(f.values) != 1 || len(f.warnings) != 1 {
		t.Errorf("%v, %+v", f.values, f.warnings)
	}
}

// Machines of 1.5 and 2 cores, then of 2.5 and 3. A row without one of them is unknown.
func TestSampledNodesByHand(t *testing.T) {
	r := sampledTrial([]float64{1, 1, 1, 2, 3, 4, 5, 6, 7}, []float64{1, 1, 1, 2, 3, 4, 5, 6, 7})
	r.Sampled.Nodes = make([]result.SampledNode, 2)
	for i := range r.Sampled.Rows {
		a, b := 1.5, 2.0
		if i >= 5 {
			a, b = 2.5, 3
		}
		if r.Sampled.Rows[i].NodeCores = []*float64{&a, &b}; i == 4 {
			r.Sampled.Rows[i].NodeCores[1] = nil
		}
	}
	f := trialFigures(r, false)
	// Rows 3 and 5 to 7 of the phase: 3.5, 5.5, 5.5 and 5.5.
	if got := f.values[metric.NodeCPU]; math.Abs(got-5) > 1e-12 {
		t.Errorf("%v cores of machines, want 5", got)
	}
}

// Ten switches of each kind in 4 s are 5 a second. Twenty slices with 0.2 s of load each are half of 8 s.
func TestDilutedByHand(t *testing.T) {
	u := result.TaskUsage{Task: mesh.Task{ID: "a", Plane: metric.App}, Start: result.Reading{At: edge, Voluntary: 3, Involuntary: 2}, End: result.Reading{At: edge.Add(seconds(4)), Voluntary: 13, Involuntary: 12}}
	if v, ok := taskSwitches(u); !ok || v != 5 {
		t.Errorf("%v switches a second, want 5", v)
	}
	l := &result.Load{MeasureSeconds: 8, Slices: &result.OwnSlices{Count: 20, LengthSeconds: 0.25, GuardSeconds: 0.05}}
	if got := dilution(l, 8); math.Abs(got-2) > 1e-12 || math.Abs(ownSeconds(l)-5) > 1e-12 {
		t.Errorf("%v, %v s own", got, ownSeconds(l))
	}
	end := &result.Load{Start: edge, End: edge.Add(seconds(2.5))}
	if got := measureSeconds(end); got != 2.5 {
		t.Errorf("%v s", got)
	}
}

// Of 2,000 answers from 1 to 2,000 ms the 1,000th, the 1,800th and the 1,980th are the quantiles.
func TestQuantilesByHand(t *testing.T) {
	h := hdrhistogram.NewPacked(1000, 60e9, 4)
	for ms := range int64(2000) {
		_ = h.RecordValue((ms + 1) * 1e6)
	}
	f := &figures{values: map[string]float64{}}
	distribution(f, metric.Latency, 1e6, h)
	for part, want := range map[string]float64{"p50": 1000, "p90": 1800, "p99": 1980, "mean": 1000.5, "max": 2000} {
		if got := f.values[metric.Of(metric.Latency, part)]; math.Abs(got-want) > 0.5 {
			t.Errorf("%s is %v ms, want %v", part, got, want)
		}
	}
	if len(f.warnings) != 2 { // 99.9 % need 10,000
		t.Errorf("%+v", f.warnings)
	}
	outside := int64(5e6)
	r := handRecord()
	r.Outside = &outside // 5 ms for 10,000 answers
	same(t, trialFigures(&r, false).values, map[string]float64{metric.OutsideCPU: 0.5})
}
