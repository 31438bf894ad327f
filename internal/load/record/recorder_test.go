package record

import (
	"bytes"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"github.com/tare-mesh/tare/internal/base/hdrlog"
	"github.com/tare-mesh/tare/internal/load"
	"github.com/tare-mesh/tare/test/must"
)

func BenchmarkRecord(b *testing.B) {
	p := profile()
	c := NewCollector(&p, nil)
	r := c.Recorder()
	rng := rand.New(rand.NewPCG(1, 1))
	outcomes := make([]Outcome, 4096)
	for i := range outcomes {
		at := int64(p.Warmup) + int64(i)
		outcomes[i] = Outcome{Intended: at, Sent: at + 1000, Free: at, End: at + 50_000 + rng.Int64N(100_000), Status: 200}
	}
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		o := outcomes[i%len(outcomes)]
		r.Due(o.Intended)
		r.Finish(&o)
	}
}

func TestRecordingAllocatesNothing(t *testing.T) {
	p := profile()
	r := NewCollector(&p, nil).Recorder()
	o := Outcome{Intended: int64(p.Warmup), Sent: int64(p.Warmup), End: int64(p.Warmup) + 1000, Status: 200}
	r.Due(o.Intended)
	r.Finish(&o)
	if n := testing.AllocsPerRun(1000, func() {
		r.Due(o.Intended)
		r.Finish(&o)
	}); n != 0 {
		t.Errorf("%v allocations per request", n)
	}
}

// Requests due before an edge of the window and ended at it or later are its backlog.
func TestBacklogAtTheEdges(t *testing.T) {
	p := profile()
	c := NewCollector(&p, nil)
	r := c.Recorder()
	start, end := r.Window[0], r.Window[1]
	for _, o := range []Outcome{
		{Intended: start - 3000, End: start - 1000, Status: 200},              // ended in time
		{Intended: start - 3000, End: start, Status: 200},                     // ended at the start
		{Intended: start - 3000, End: start + 1000, Status: 200},              // answered inside
		{Intended: start, End: end - 1, Status: 200},                          // inside
		{Intended: end - 1000, End: end + 1000, Status: 200},                  // answered after the window
		{Intended: end - 1000, Sent: -1, End: end, Kind: load.FailureNotSent}, // never sent
		{Intended: end, End: end + 1000, Status: 200},                         // due after the window
	} {
		r.Due(o.Intended)
		r.Finish(&o)
	}
	if r.backlog != [2]int64{2, 2} || r.completed != 3 || r.Intended != 3 {
		t.Errorf("backlog %v, completed %d, intended %d", r.backlog, r.completed, r.Intended)
	}
}

// A late answer belongs to the interval in which its request was intended, however
// many seconds have passed. Intervals leave the recorder once, and only then.
func TestLateAnswersBelongToTheirSecond(t *testing.T) {
	p := profile()
	c := NewCollector(&p, nil)
	r := c.Recorder()
	const s = int64(time.Second)
	r.Due(s / 2)
	r.Due(3 * s / 2)
	r.Finish(&Outcome{Intended: 3 * s / 2, Sent: 3 * s / 2, End: 2 * s, Status: 200})
	r.pass(5 * s)
	if len(c.in) != 1 || (<-c.in).from != time.Second {
		t.Fatal("second 1 was not handed over alone")
	}
	r.Finish(&Outcome{Intended: s / 2, Sent: s, End: 70 * s, Kind: load.FailureTimeout})
	late := <-c.in
	if late.from != time.Duration(r.Window[0]) || late.to != time.Duration(r.Window[1]) || late.response[classTimeout].TotalCount() != 1 {
		t.Errorf("%+v", late)
	}
	if got := late.response[classTimeout].Max(); got < highestNS*999/1000 {
		t.Errorf("a latency beyond the range was recorded as %v", time.Duration(got))
	}
	r.pass(6 * s)
	if len(r.open) != 0 || len(c.in) != 0 {
		t.Errorf("%d seconds still open, %d handed over twice", len(r.open), len(c.in))
	}
}

// Other tools read the log: here the library's own reader, at whole seconds from
// an awkward start time, with nothing lost to rounding.
func TestLogIsReadBack(t *testing.T) {
	if testing.Short() {
		t.Skip("decodes 1800 histograms")
	}
	all := map[time.Duration]*logInterval{}
	for i := range 300 {
		s := newInterval()
		put(s.response[classOK], int64(i+1)*int64(time.Millisecond))
		put(s.lateness, 1500)
		from := time.Duration(i) * time.Second
		all[from] = &logInterval{to: from + time.Second}
		all[from].merge(s)
	}
	for _, t0 := range []time.Time{time.UnixMilli(1795251609123), time.Unix(1795251609, 999_999_999), time.Unix(1795251600, 0)} {
		var b bytes.Buffer
		must.OK(t, writeLog(&b, t0, all))
		reader := hdrhistogram.NewHistogramLogReader(bytes.NewReader(b.Bytes()))
		for line := 0; ; line++ {
			h := must.Get(reader.NextIntervalHistogram())(t)
			if h == nil {
				if line != 600 {
					t.Errorf("%d lines, want 600", line)
				}
				break
			}
			if got := h.StartTimeMs() - t0.UnixMilli(); got != int64(line/2)*1000 || h.EndTimeMs()-h.StartTimeMs() != 1000 {
				t.Errorf("line %d begins %d ms after the start and ends %d ms later", line, got, h.EndTimeMs()-h.StartTimeMs())
			}
			if want := []string{"response.2xx", "lateness"}[line%2]; h.Tag() != want || h.TotalCount() != 1 {
				t.Errorf("line %d: tag %q, count %d", line, h.Tag(), h.TotalCount())
			}
		}
		next := 0
		if err := hdrlog.ReadSeconds(&b, func(second int, tag string, h *hdrhistogram.PackedHistogram) error {
			if second != next/2 {
				t.Errorf("ReadLog: line %d is second %d", next, second)
			}
			next++
			return nil
		}); err != nil || next != 600 {
			t.Errorf("ReadLog: %d lines, %v", next, err)
		}
	}
}

// profile is an open loop of half a second.
func profile() load.Profile {
	return load.Profile{
		Targets: []string{"http://127.0.0.1/"}, Rate: 500, Connections: 8,
		Warmup: 200 * time.Millisecond, Measure: 500 * time.Millisecond, ExpectSize: -1,
	}.WithDefaults()
}

// The counts of the whole run include warm-up and failed requests, sent or not.
func TestWholeRun(t *testing.T) {
	p := profile()
	p.Parts = 1
	c := NewCollector(&p, nil)
	r := c.Recorder()
	for _, o := range []Outcome{
		{Intended: 0, Status: 200}, // in the warm-up
		{Intended: r.Window[0], Status: 200},
		{Intended: r.Window[0], Status: 503},
		{Intended: r.Window[0], Status: load.StatusGRPC + 14, Retries: 3},
		{Intended: r.Window[0], Kind: load.FailureTimeout},
		{Intended: r.Window[1], Sent: -1, Kind: load.FailureNotSent},
	} {
		o.End = o.Intended + 1000
		r.Due(o.Intended)
		r.Finish(&o)
	}
	want := load.Whole{Sent: 5, Unanswered: 1, Failed: 2, Retried: 3}
	report := c.Report(Facts{}, []*Totals{&r.Totals}, func(time.Duration) load.Host { return load.Host{} })
	if *report.Whole != want {
		t.Errorf("%+v, want %+v", *report.Whole, want)
	}
	merged, err := Merge([]load.Report{report, report})
	if err != nil || *merged.Whole != (load.Whole{Sent: 10, Unanswered: 2, Failed: 4, Retried: 6}) {
		t.Errorf("%+v, %v", merged.Whole, err)
	}
}
