package answer_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"testing"

	"github.com/tare-mesh/tare/internal/answer"
	"github.com/tare-mesh/tare/internal/compare"
	"github.com/tare-mesh/tare/internal/figures"
	"github.com/tare-mesh/tare/internal/result"
	"github.com/tare-mesh/tare/test/answertest"
	"github.com/tare-mesh/tare/test/must"
)

// soaked is a soak of three treatments. Envoy keeps 16 KiB of each request and gets slower by half; the others do not change.
func soaked(blocks int) answertest.Study {
	s := answertest.Quickstart()
	s.Name, s.Blocks, s.Warmup, s.Measure, s.Rate = "soak", blocks, 1, 72, 400
	s.Treatments = []answertest.Treatment{s.Treatments[0], s.Treatments[2], s.Treatments[3]}
	s.Treatments[1].Truth.Slower = 0.5
	s.YAML = fmt.Sprintf("apiVersion: tare.dev/v1beta1\nkind: Experiment\nmetadata: {name: soak}\nblocks: %d\nphases: {soak: 72s}\n", blocks)
	s.Change = func(r *result.Record) {
		for i := range r.Tasks {
			u := &r.Tasks[i]
			length := u.End.At.Sub(u.Start.At).Seconds()
			source := rand.New(rand.NewPCG(uint64(r.Ordinal), uint64(i)))
			for second := 0.0; second <= length; second += 2 {
				rss := u.Start.RSS + int64(source.NormFloat64()*(128<<10)) // it rises and falls
				if r.Treatment == "envoy" && u.ID == "echo-0/sidecar" {
					rss += int64(second * float64(r.Load.Completed) / r.Load.MeasureSeconds * (16 << 10))
				}
				u.Memory = append(u.Memory, result.MemoryReading{Seconds: second, RSS: rss, CPU: u.Start.CPU + int64(float64(u.End.CPU-u.Start.CPU)*second/length)})
			}
			u.End.RSS = u.Memory[len(u.Memory)-1].RSS
			u.End.Peak = max(u.End.Peak, u.End.RSS+1<<20)
		}
	}
	return s
}

// A planted leak and a planted drift of the response time are found with their slopes, and nothing else grows: over
// deployments, and within one.
func TestTrendsOfASoak(t *testing.T) {
	for _, blocks := range []int{1, 3} {
		r := must.Get(answer.Analyze(soaked(blocks).Write(t, filepath.Join(t.TempDir(), "run")), compare.Options{}))(t)
		grown := map[string]answer.Trend{}
		for _, x := range r.Trends {
			if x.Within != (blocks < 3) || x.Deployments != blocks {
				t.Errorf("%d blocks: %s of %s rests on %d deployments (within: %v)", blocks, x.Metric, x.Treatment, x.Deployments, x.Within)
			}
			if x.Verdict == answer.StillGrowing || x.Verdict == answer.StillFalling {
				grown[x.Treatment+" "+x.Metric] = x
			}
		}
		planted := []string{"envoy memory_mib/data", "envoy memory_mib/total", "envoy latency_ms/p50", "envoy latency_ms/p99"}
		for name, x := range grown {
			if !slices.Contains(planted, name) {
				t.Errorf("%d blocks: %s is %s by %+v, planted no change", blocks, name, x.Verdict, x.PerHour)
			}
		}
		for _, name := range planted[:3] {
			if _, ok := grown[name]; !ok {
				t.Errorf("%d blocks: %s is not among what grows", blocks, name)
			}
		}
		metrics := r.Treatments[1].Metrics
		if per := metrics["memory_growth_kib_per_1000/data"]; math.Abs(per.Estimate/1000-16) > 0.2 || !per.Known() || per.Excludes(16000) {
			t.Errorf("%d blocks: %v KiB per 1,000 requests in %+v, planted 16,000", blocks, per.Estimate, per.Interval)
		}
		// The median of 0.62 ms grows by half in 72 s.
		if x, want := grown["envoy latency_ms/p50"].PerHour, 0.62*0.5/72*3600; math.Abs(x.Estimate/want-1) > 0.25 {
			t.Errorf("%d blocks: p50 grows by %v ms an hour, planted %v", blocks, x.Estimate, want)
		}
		for _, tr := range r.Treatments {
			marked := slices.ContainsFunc(tr.Metrics["memory_mib/data"].Warnings, func(w figures.Warning) bool { return w.Code == answer.MemoryGrows })
			if marked != (tr.ID == "envoy") {
				t.Errorf("%d blocks: memory of %s is marked as growing: %v", blocks, tr.ID, marked)
			}
		}
		if cpu := slices.IndexFunc(r.Trends, func(x answer.Trend) bool { return x.Metric == "cpu_us_per_request/total" }); cpu < 0 {
			t.Errorf("%d blocks: no trend of CPU", blocks)
		} else if x := r.Trends[cpu]; math.Abs(x.First/r.Treatments[0].Metrics[x.Metric].Estimate-1) > 0.1 {
			t.Errorf("%d blocks: CPU of a request begins at %v, and its mean is %v", blocks, x.First, r.Treatments[0].Metrics[x.Metric].Estimate)
		}
	}
}
