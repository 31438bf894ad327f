package report

import (
	"bytes"
	"strings"
	"testing"

	"github.com/tare-mesh/tare/internal/base/must"
	"github.com/tare-mesh/tare/internal/metric"
	"github.com/tare-mesh/tare/internal/result"
)

// Memory that was still growing at the end has a mark with its slope beside each of its figures, and other memory has none.
func TestGrowingMemoryIsMarked(t *testing.T) {
	r := reportOf(t, small(func(r *result.Record) {
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
	}))
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
