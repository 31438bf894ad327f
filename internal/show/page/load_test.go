package page_test

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/tare-mesh/tare/internal/base/must"
	"github.com/tare-mesh/tare/internal/load"
	"github.com/tare-mesh/tare/internal/show/loadpage"
	"github.com/tare-mesh/tare/internal/show/page"
)

// loaded is one load with failures, and with names that are scripts.
func loaded() page.Load {
	start, good := time.Unix(1_700_000_000, 0), 0.98
	q := load.Quantiles{Count: 980, Mean: 2, Min: 0.2, P50: 1, P75: 1.5, P90: 3, P95: 5, P99: 12.5, P999: 40, P9999: 80, Max: 81}
	r := &load.Report{Loop: "open", Arrivals: "poisson", Version: "v1", MeasureStart: start, MeasureEnd: start.Add(10 * time.Second), Requests: 1000, Intended: 1000, Completed: 1000, Rate: 100,
		Result:    load.Result{Success: &good, Failures: []load.Cause{{Cause: "status 503", Count: 20}}},
		Generator: load.Generator{OK: true}, Warnings: []string{planted},
		ResponseMS: q, ServiceMS: q, Histogram: []load.Bucket{{ToMS: 1, Count: 500}, {ToMS: 10, Count: 460}, {ToMS: 100, Count: 20}},
		Classes: map[load.Class]int64{load.OK: 980, load.Status: 20},
		Routes:  map[string]load.RouteTimes{"/" + planted: {Requests: 600, ResponseMS: q}, "/b": {Requests: 380, Failed: 20, ResponseMS: q}}}
	l := page.Load{Profile: &load.Profile{Targets: []string{"http://127.0.0.1/" + planted}, Rate: 100, Connections: 16}, Report: r,
		Gates: []loadpage.Gate{{Text: "gate \"p99 < 50ms\" holds: p99 12.5 ms", Holds: true}}}
	for s := range 12 {
		phase := "measure"
		if s < 2 {
			phase = "warm-up"
		}
		l.Seconds = append(l.Seconds, load.Progress{Second: s, Phase: phase, Completed: int64(95 + s), Errors: 2, P50MS: 1, P99MS: 12})
	}
	return l
}

func loadPage(t *testing.T) []byte {
	t.Helper()
	var b bytes.Buffer
	must.OK(t, page.WriteLoad(&b, loaded()))
	return b.Bytes()
}

// sameTimes compares the drawn percentiles with the report.
func sameTimes(t *testing.T, f finding) {
	var got []float64
	for _, p := range f.Marks["figure-times"] {
		got = append(got, p.Estimates...)
	}
	near(t, "percentiles", got, []float64{1, 1.5, 3, 5, 12.5, 40, 80, 81})
	if n := len(f.Tables["figure-seconds"]); n < 10 {
		t.Errorf("%d rows of seconds", n)
	}
}

func TestPageOfLoadOpensWithTheAnswer(t *testing.T) {
	text := string(loadPage(t))
	at := 0
	for _, words := range []string{"100", "98", "20 of 1000 requests failed", "status 503", "The generator kept up", "A gate holds", `id="figures"`, "Provenance", "tare load"} {
		i := strings.Index(text[at:], words)
		if i < 0 {
			t.Fatalf("%q is not after offset %d", words, at)
		}
		at += i
	}
	if strings.Contains(text, planted) {
		t.Error("a name is not escaped")
	}
}
