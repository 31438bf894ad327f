package answer_test

import (
	"bytes"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"testing"
	"time"

	"github.com/tare-mesh/tare/internal/answer"
	"github.com/tare-mesh/tare/internal/compare"
	"github.com/tare-mesh/tare/internal/load"
	"github.com/tare-mesh/tare/internal/load/record"
	"github.com/tare-mesh/tare/internal/result"
	"github.com/tare-mesh/tare/test/answertest"
	"github.com/tare-mesh/tare/test/must"
)

// A long study: 500 trials of 10 s.
func BenchmarkAnalyze(b *testing.B) {
	s := answertest.Quickstart()
	s.Blocks, s.Warmup, s.Measure, s.Rate = 100, 1, 10, 100
	d := s.Write(b, filepath.Join(b.TempDir(), "run"))
	for b.Loop() {
		must.Get(answer.Analyze(d, compare.Options{}))(b)
	}
	b.ReportMetric(float64(b.Elapsed().Milliseconds())/float64(b.N)/float64(len(d.Plan().Trials)), "ms/trial")
}

// hours is a study of 2,000 trials of an hour each, as far as a report reads it:
// the sums of the measure window, a record, and a stream of a sample a second.
func hours(tb testing.TB) *result.Dir {
	s := answertest.Quickstart()
	s.Blocks, s.Warmup, s.Measure, s.Rate = 400, 1, 1, 20
	const seconds, rate = 3600, 50
	s.Change = func(r *result.Record) {
		l := r.Load
		l.MeasureSeconds, l.Completed, l.Classes = seconds, seconds*rate, map[string]int64{"2xx": seconds * rate}
	}
	path := filepath.Join(tb.TempDir(), "run")
	d := s.Write(tb, path)
	var log record.Log
	random := rand.New(rand.NewPCG(1, 1))
	for i := range seconds * rate {
		service := time.Duration(2e5 * math.Exp(0.5*random.NormFloat64()))
		must.OK(tb, log.Add(record.Sample{At: time.Duration(1+i/rate) * time.Second, Class: load.OK, Service: service, Response: service + 5000, Lateness: 5000}))
	}
	var full, sums bytes.Buffer
	start := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	must.OK(tb, log.Write(&full, start))
	must.OK(tb, record.MergeWindow(&full, &sums, start, time.Second, (seconds+1)*time.Second))
	events := bytes.Repeat([]byte(`{"time":"2026-03-01T12:00:00Z","kind":"sample","sample":{"tasks":{"echo-0/app":{"at":"2026-03-01T12:00:00Z","cpu":1}}}}`+"\n"), seconds)
	for _, t := range d.Plan().Trials {
		if err := os.Remove(d.TrialFile(t.ID, result.ManifestFile)); err != nil { // the files below are not in it
			tb.Fatal(err)
		}
		for name, b := range map[string][]byte{result.MeasuredFile: sums.Bytes(), result.EventsFile: events} {
			file := d.TrialFile(t.ID, name)
			_ = os.Remove(file)
			first := d.TrialFile(d.Plan().Trials[0].ID, name)
			if file != first { // two thousand names for one file: the reading is the same
				must.OK(tb, os.Link(first, file))
				continue
			}
			must.OK(tb, os.WriteFile(file, b, 0o644))
		}
	}
	return d
}

// 2,000 trials of an hour: to be reported in under 10 s and 1 GiB.
func BenchmarkAnalyzeHours(b *testing.B) {
	d := hours(b)
	for b.Loop() {
		r, err := answer.Analyze(d, compare.Options{})
		if err != nil || r.Count.Used != 2000 || r.Trials[7].Metrics["latency_ms/p99"] == 0 {
			b.Fatalf("%v", err)
		}
	}
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	b.ReportMetric(float64(m.Sys)/(1<<20), "MiB-from-system")
}

// The sums are used where they fit the record and passed over where they do not.
func TestMeasuredSums(t *testing.T) {
	s := answertest.Quickstart()
	s.Treatments, s.Blocks, s.Warmup, s.Measure, s.Rate = s.Treatments[:1], 1, 1, 3, 200
	d := s.Write(t, filepath.Join(t.TempDir(), "run"))
	id := d.Plan().Trials[0].ID
	p99 := func() float64 {
		r := must.Get(answer.Analyze(d, compare.Options{}))(t)
		return r.Trials[0].Metrics["latency_ms/p99"]
	}
	want := p99()
	merge := func(from, to time.Duration) {
		in := must.Get(os.ReadFile(d.TrialFile(id, result.LatencyFile)))(t)
		var out bytes.Buffer
		must.OK(t, record.MergeWindow(bytes.NewReader(in), &out, time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC), from, to))
		must.OK(t, os.WriteFile(d.TrialFile(id, result.MeasuredFile), out.Bytes(), 0o644))
	}
	if err := os.Remove(d.TrialFile(id, result.ManifestFile)); err != nil { // the file is not in it
		t.Fatal(err)
	}
	merge(time.Second, 4*time.Second)
	if got := p99(); got != want {
		t.Errorf("p99 %v by the sums, %v by the log", got, want)
	}
	log := d.TrialFile(id, result.LatencyFile)
	whole := must.Get(os.ReadFile(log))(t)
	must.OK(t, os.Remove(log))
	if got := p99(); got != want {
		t.Errorf("without the log p99 is %v: the sums are not used", got)
	}
	must.OK(t, os.WriteFile(log, whole, 0o644))
	merge(time.Second, 3*time.Second) // a second is missing
	if got := p99(); got != want {
		t.Errorf("p99 %v by sums that lack a second, want %v", got, want)
	}
	must.OK(t, os.WriteFile(d.TrialFile(id, result.MeasuredFile), []byte("Tag=response/2xx,1.0,3.0,0.1,HISTFAAAnonsense\n"), 0o644))
	if got := p99(); got != want {
		t.Errorf("p99 %v beside damaged sums, want %v", got, want)
	}
}
