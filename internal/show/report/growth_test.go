package report

import (
	"bytes"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/tare-mesh/tare/internal/compare"
	"github.com/tare-mesh/tare/internal/metric"
	"github.com/tare-mesh/tare/internal/result"
	"github.com/tare-mesh/tare/test/must"
)

// Memory that was still growing at the end has a mark with its slope beside each of its figures, and other memory has none.
func TestGrowingMemoryIsMarked(t *testing.T) {
	r := reportOf(t, small(leaks))
	const slope = "↑1740 MiB/min"
	for name, write := range map[string]func(*bytes.Buffer) error{
		"text":     func(b *bytes.Buffer) error { return writeText(b, r, Options{Width: 2000}) },
		"all":      func(b *bytes.Buffer) error { return writeText(b, r, Options{Width: 2000, All: true}) },
		"markdown": func(b *bytes.Buffer) error { return writeMarkdown(b, r, Options{All: true}) },
	} {
		var out bytes.Buffer
		must.OK(t, write(&out))
		marked := 0
		for line := range strings.Lines(out.String()) {
			if strings.Contains(line, slope) {
				marked++
			}
			if before, _, ok := strings.Cut(line, "↑"); ok && !strings.Contains(line, "envoy") && !strings.Contains(line, "memory") {
				t.Errorf("%s: a mark in %q", name, before)
			}
		}
		if least := map[string]int{"text": 2, "all": 4, "markdown": 4}[name]; marked < least { // its treatment, its difference and every metric
			t.Errorf("%s: %d lines have %s, want %d or more\n%s", name, marked, slope, least, out.String())
		}
	}
	w := WordsOf(r)
	if got := w.Growing["envoy"][metric.Of(metric.Memory, "total")]; got != slope {
		t.Errorf("the page's mark is %q, want %q", got, slope)
	}
	if len(w.Growing) != 1 {
		t.Errorf("marks of %v, want envoy alone", w.Growing)
	}
}

// leaks makes the sidecars of envoy grow by 15 MiB a second, each of two.
func leaks(r *result.Record) {
	for i := range r.Tasks {
		u := &r.Tasks[i]
		for s := range 9 {
			rss := u.End.RSS
			if r.Treatment == "envoy" && u.Plane == metric.Data { // 15 MiB a second, of each of two sidecars
				rss -= int64(8-s) * (int64(15-r.Block%2) << 20) / 4
			}
			u.Memory = append(u.Memory, result.MemoryReading{Seconds: float64(s) / 4, RSS: rss})
		}
	}
}

// Two runs compared have the mark beside the run that grew, and so has a gate on it. The other run and other figures have none.
func TestGrowingMemoryIsMarkedAcrossRuns(t *testing.T) {
	var dirs []*result.Dir
	for i, change := range []func(*result.Record){nil, nil, nil, leaks} {
		s := small(change)
		s.Seed = uint64(i + 1)
		d := s.Write(t, filepath.Join(t.TempDir(), "run"))
		defer d.Close()
		dirs = append(dirs, d)
	}
	a := must.Get(compare.CompareRuns(dirs[:3], dirs[3], compare.AcrossOptions{}))(t)
	must.OK(t, a.Gate([]compare.Gate{must.Get(compare.ParseGate("memory_mib/data < +50%"))(t), must.Get(compare.ParseGate("latency_ms/p99 < +50%"))(t)}))
	for _, c := range a.Changes {
		grows := c.Treatment == "envoy" && slices.Contains([]string{"memory_mib/data", "memory_mib/total", "memory_peak_mib/data", "memory_peak_mib/total"}, c.Metric)
		if c.BaseGrowth != nil || (c.NewGrowth != nil) != grows {
			t.Errorf("%s of %s: growth %v in the base runs and %v in the new one", c.Metric, c.Treatment, c.BaseGrowth, c.NewGrowth)
		}
	}
	for _, g := range a.Gates {
		if want := g.Metric == "memory_mib/data" && g.Treatment == "envoy"; g.Growing != want {
			t.Errorf("the gate %s of %s is marked: %v", g.Gate, g.Treatment, g.Growing)
		}
	}
	var b bytes.Buffer
	must.OK(t, AcrossForms(Options{Width: 2000})[0].Write(&b, a))
	if n := strings.Count(b.String(), "↑1740 MiB/min"); n < 1 || !strings.Contains(b.String(), "↑: memory was still growing at the end") {
		t.Errorf("%d marks of the slope in %s", n, b.String())
	}
	words := AcrossWords(a)
	for i, c := range a.Changes {
		if marked := strings.Contains(words.Comparisons[i].Difference, "↑1740 MiB/min in the new run"); marked != (c.NewGrowth != nil) {
			t.Errorf("the page has %q for %s of %s", words.Comparisons[i].Difference, c.Metric, c.Treatment)
		}
	}
}
