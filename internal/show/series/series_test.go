package series

import (
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tare-mesh/tare/internal/answer"
	"github.com/tare-mesh/tare/internal/base/hint"
	"github.com/tare-mesh/tare/internal/compare"
	"github.com/tare-mesh/tare/test/answertest"
	"github.com/tare-mesh/tare/test/must"
)

// Requests are bounded, the oldest points are first, and no point is lost.
func TestBatches(t *testing.T) {
	at := func(s ...int) (points []Point) {
		for _, n := range s {
			points = append(points, Point{time.Unix(int64(n), 0), float64(n)})
		}
		return points
	}
	all := []Series{{Name: "a", Points: at(5, 9)}, {Name: "b", Points: at(1, 2, 3, 4, 6, 7, 8)}}
	var seen []float64
	last := time.Time{}
	for _, part := range Batches(all, 4) {
		var points []Point
		for _, s := range part {
			points = append(points, s.Points...)
		}
		if len(points) > 4 {
			t.Errorf("%d points", len(points))
		}
		slices.SortFunc(points, func(a, b Point) int { return a.At.Compare(b.At) })
		if points[0].At.Before(last) {
			t.Errorf("%v after %v", points[0].At, last)
		}
		last = points[len(points)-1].At
		for _, p := range points {
			seen = append(seen, p.Value)
		}
	}
	if !slices.Equal(seen, []float64{1, 2, 3, 4, 5, 6, 7, 8, 9}) {
		t.Error(seen)
	}
}

func TestSpan(t *testing.T) {
	from := time.Unix(100, 0)
	points := span(from, from.Add(12*time.Second))
	if len(points) != 5 || points[3] != (Point{from.Add(12 * time.Second), 1}) || points[4].Value != 0 {
		t.Error(points)
	}
	if span(from, from.Add(-1)) != nil || span(time.Time{}, from) != nil {
		t.Error("a span without a beginning or an end")
	}
	// Records of others can have any times.
	if points := span(from.AddDate(-1000, 0, 0), from); len(points) != 3 {
		t.Errorf("%d points of a thousand years", len(points))
	}
}

// Every estimate and every comparison of a report is a series with its interval.
func TestFigures(t *testing.T) {
	d := answertest.TwoRates().Write(t, filepath.Join(t.TempDir(), "run"))
	defer d.Close()
	r := must.Get(answer.Analyze(d, compare.Options{}))(t)
	all := must.Get(Of(answer.Analysis{Report: r, Dir: d}))(t)
	valid := regexp.MustCompile(`^[a-zA-Z_][a-zA-Z0-9_]*$`)
	got := map[string]float64{}
	for _, s := range all {
		for label := range s.Labels {
			if !valid.MatchString(label) {
				t.Errorf("label %q of %s", label, s.Name)
			}
		}
		if !valid.MatchString(s.Name) {
			t.Errorf("name %q", s.Name)
		}
		got[strings.Join([]string{s.Name, s.Labels["treatment"], s.Labels["part"], s.Labels["against"], s.Labels["stat"]}, " ")] = s.Points[0].Value
	}
	want := func(v float64, words ...string) {
		if x, ok := got[strings.Join(words, " ")]; !ok || x != v {
			t.Errorf("%q is %v, want %v", words, x, v)
		}
	}
	for _, x := range r.Treatments {
		e := x.Metrics["latency_ms/p99"]
		want(e.Estimate, "tare_latency_ms", x.ID, "p99", "", "estimate")
		want(*e.Low, "tare_latency_ms", x.ID, "p99", "", "low")
		want(*e.High, "tare_latency_ms", x.ID, "p99", "", "high")
		want(float64(x.N), "tare_trials", x.ID, "", "", "")
	}
	c, _ := r.Find(r.Comparisons[0].Treatment, "cpu_us_per_request/total")
	want(c.Difference.Estimate, "tare_cpu_us_per_request_difference", c.Treatment, "total", c.Baseline, "estimate")
	want(c.Ratio.Estimate, "tare_cpu_us_per_request_over_baseline", c.Treatment, "total", c.Baseline, "estimate")
}

func TestParseTarget(t *testing.T) {
	for address, want := range map[string]Protocol{
		"http://127.0.0.1:9090/api/v1/write": RemoteWrite, "https://mimir.example/api/v1/push": RemoteWrite, "http://thanos:19291/api/v1/receive": RemoteWrite,
		"http://127.0.0.1:9090/api/v1/otlp/v1/metrics": OTLP, "http://[::1]:4318/v1/metrics/": OTLP,
	} {
		if got, err := ParseTarget(address, ""); err != nil || got.Protocol != want {
			t.Errorf("%s: %v, %v", address, got, err)
		}
	}
	if got, err := ParseTarget("http://h/x?token=secret", OTLP); err != nil || got.String() != "http://h/x" {
		t.Errorf("%v, %v", got, err)
	}
	for _, bad := range []string{"", "127.0.0.1:9090", "ftp://h/api/v1/write", "http:///api/v1/write", "http://h/x", "http://u:secret@h/api/v1/write", "http://u:secret@h:port/api/v1/write"} {
		if _, err := ParseTarget(bad, ""); err == nil || hint.Of(err) == "" || strings.Contains(err.Error(), "secret") {
			t.Errorf("%q: %v, hint %q", bad, err, hint.Of(err))
		}
	}
	if _, err := ParseTarget("http://h/api/v1/write", "grpc"); err == nil {
		t.Error("an unknown protocol")
	}
}
