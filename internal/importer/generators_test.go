package importer

import (
	"bytes"
	"errors"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/HdrHistogram/hdrhistogram-go"

	"github.com/tare-mesh/tare/test/must"
)

// realOutputs is the directory of real generator outputs.
const realOutputs = "../run/generator/testdata"

func importOne(t *testing.T, generator, file string) *Trial {
	t.Helper()
	i := slices.IndexFunc(Generators(), func(s Source) bool { return s.Name == generator })
	if i < 0 {
		t.Fatalf("no source %s", generator)
	}
	s := must.Get(Generators()[i].Read([]string{filepath.Join(realOutputs, file)}, Options{Mesh: "m"}))(t)
	if e := s.Trials[0].Record.Error; e != "" {
		t.Fatalf("%s: %s", file, e)
	}
	return &s.Trials[0]
}

// Outputs of real generators can be imported, requests and latencies.
func TestOutputsOfTheGeneratorsThemselves(t *testing.T) {
	for generator, files := range map[string][]string{
		"fortio": {"fortio-1.75.3.json", "fortio-1.75.3-errors.json"},
		"oha":    {"oha-1.16.0.json", "oha-1.16.0-errors.json", "oha-1.16.0.csv"},
		"vegeta": {"vegeta-12.12.0.bin", "vegeta-12.12.0.json", "vegeta-12.12.0-report.json", "vegeta-12.12.0-report.txt"},
		"wrk":    {"wrk-4.1.0.txt"},
		"wrk2":   {"wrk2-4.0.0.txt"},
		"k6":     {"k6-1.8.1-errors.json", "k6-documented-export.json"},
	} {
		for _, file := range files {
			l := importOne(t, generator, file).Record.Load
			if l == nil || l.Completed <= 0 || l.MeasureSeconds <= 0 || len(l.Published) != 1 || l.Published[0].Of == "" {
				t.Errorf("%s: %+v", file, l)
			}
		}
	}
}

// A path with ERROR is one as any other: only a study whose own script skips such paths asks for that.
func TestPathsWithErrorAreImported(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "ERROR-rates")
	data, err := os.ReadFile(filepath.Join(realOutputs, "fortio-1.75.3.json"))
	if err == nil {
		err = errors.Join(os.Mkdir(dir, 0o700), os.WriteFile(filepath.Join(dir, "a.json"), data, 0o600))
	}
	must.OK(t, err)
	i := slices.IndexFunc(Generators(), func(s Source) bool { return s.Name == "fortio" })
	s, err := Generators()[i].Read([]string{dir}, Options{Mesh: "m"})
	if err != nil || len(s.Trials) != 1 || len(s.Skipped) != 0 {
		t.Errorf("%+v, %v", s, err)
	}
}

// All vegeta formats of one run have the same requests, rate and latencies.
func TestFormsOfOneRunAgree(t *testing.T) {
	var forms []*Trial
	for _, f := range []string{"vegeta-12.12.0.bin", "vegeta-12.12.0.json", "vegeta-12.12.0-report.json"} {
		forms = append(forms, importOne(t, "vegeta", f))
	}
	first := forms[0].Record.Load
	for _, tr := range forms[1:] {
		l := tr.Record.Load
		if l.Completed != first.Completed || l.Classes["2xx"] != first.Classes["2xx"] || l.BytesIn != first.BytesIn {
			t.Errorf("%s: %d requests, %d bytes; the results have %d, %d", tr.Run, l.Completed, l.BytesIn, first.Completed, first.BytesIn)
		}
		if a, b := l.MeasureSeconds, first.MeasureSeconds; math.Abs(a-b) > 0.02*b {
			t.Errorf("%s: %v s, the results %v s", tr.Run, a, b)
		}
		if l.Recorded != 0 && l.Recorded != first.Recorded {
			t.Errorf("%s: %d recorded, the results %d", tr.Run, l.Recorded, first.Recorded)
		}
	}
}

// A record of requests has the failures of the report of the same run, once.
func TestFailuresOfRecords(t *testing.T) {
	for _, file := range []string{"vegeta-12.12.0-errors.bin", "vegeta-12.12.0-errors-report.json", "vegeta-12.12.0-errors-report.txt"} {
		l := importOne(t, "vegeta", file).Record.Load
		if want := map[string]int64{"2xx": 292, "status": 6, "timeout": 2}; !maps.Equal(l.Classes, want) || l.Intended != 300 || l.Completed != 298 {
			t.Errorf("%s: %v, %d of %d answered", file, l.Classes, l.Completed, l.Intended)
		}
	}
}

// A histogram keeps the counts of its bins, and quantiles where they were printed.
func TestBinsKeepCounts(t *testing.T) {
	o := must.Get(ParseOutput("wrk2", "x", []byte(wrk2Seed()), true))(t)
	c := hdrhistogram.NewPacked(lowestNS, 60e9, digits)
	spread(c, o.bins)
	log := must.Get(intervalLog(1, c, []string{"response.2xx"}))(t)
	h := must.Get(hdrhistogram.NewHistogramLogReader(bytes.NewReader(log)).NextIntervalHistogram())(t)
	if h.TotalCount() != o.latency.Count {
		t.Errorf("%d of %d", h.TotalCount(), o.latency.Count)
	}
	for _, q := range o.latency.Quantiles {
		if got := float64(h.ValueAtPercentile(100*q.Q)) / 1e6; q.Q < 1 && math.Abs(got-q.MS) > 0.02*q.MS {
			t.Errorf("quantile %v is %v ms, printed %v", q.Q, got, q.MS)
		}
	}
}
