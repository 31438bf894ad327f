package scrape

import (
	"math"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
)

// Prometheus's own parser reads the same figures.
func TestPrometheusReadsIt(t *testing.T) {
	var r Registry
	r.Gauge("z_gauge", "A gauge.", func() float64 { return 1.5 })
	r.Counter("a_total", "A counter.", func() float64 { return 3 })
	times := r.Histograms("took_seconds", "Times.", []float64{0.1, 1}, "route", "stage")
	const odd = "a\"b\\c\nd"
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			for _, v := range []float64{0.05, 0.1, 0.5, 7} {
				times.With(odd, "calc").Observe(v)
			}
		})
	}
	all.Wait()
	times.With("other", "total").Observe(1)
	w := httptest.NewRecorder()
	r.ServeHTTP(w, nil)
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(strings.NewReader(w.Body.String()))
	if err != nil {
		t.Fatalf("%v\n%s", err, w.Body)
	}
	if g, c := families["z_gauge"].Metric[0].GetGauge().GetValue(), families["a_total"].Metric[0].GetCounter().GetValue(); g != 1.5 || c != 3 {
		t.Errorf("gauge %v, counter %v", g, c)
	}
	if n := len(families["took_seconds"].Metric); n != 2 {
		t.Fatalf("%d series", n)
	}
	m := families["took_seconds"].Metric[0]
	h := m.GetHistogram()
	if m.Label[0].GetValue() != odd || h.GetSampleCount() != 16 || math.Abs(h.GetSampleSum()-4*7.65) > 1e-9 {
		t.Errorf("%v", m)
	}
	for i, want := range []uint64{8, 12, 16} {
		if got := h.Bucket[i].GetCumulativeCount(); got != want {
			t.Errorf("bucket %d: %d, want %d", i, got, want)
		}
	}
}
