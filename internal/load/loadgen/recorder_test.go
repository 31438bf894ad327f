package loadgen

import (
	"bytes"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
)

func BenchmarkRecord(b *testing.B) {
	p := profile("http://127.0.0.1/").withDefaults()
	c := newCollector(&p, nil)
	r := c.recorder()
	rng := rand.New(rand.NewPCG(1, 1))
	outcomes := make([]outcome, 4096)
	for i := range outcomes {
		at := int64(p.Warmup) + int64(i)
		outcomes[i] = outcome{intended: at, sent: at + 1000, free: at, end: at + 50_000 + rng.Int64N(100_000), status: 200}
	}
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		o := outcomes[i%len(outcomes)]
		r.due(o.intended)
		r.finish(o)
	}
}

func TestRecordingAllocatesNothing(t *testing.T) {
	p := profile("http://127.0.0.1/").withDefaults()
	r := newCollector(&p, nil).recorder()
	o := outcome{intended: int64(p.Warmup), sent: int64(p.Warmup), end: int64(p.Warmup) + 1000, status: 200}
	r.due(o.intended)
	r.finish(o)
	if n := testing.AllocsPerRun(1000, func() {
		r.due(o.intended)
		r.finish(o)
	}); n != 0 {
		t.Errorf("%v allocations per request", n)
	}
}

// A late answer belongs to the second in which its request was intended, however
// many seconds have passed; seconds leave the recorder once, and only then.
func TestLateAnswersBelongToTheirSecond(t *testing.T) {
	p := profile("http://127.0.0.1/").withDefaults()
	c := newCollector(&p, nil)
	r := c.recorder()
	const s = int64(time.Second)
	r.due(s / 2)
	r.due(3 * s / 2)
	r.finish(outcome{intended: 3 * s / 2, sent: 3 * s / 2, end: 2 * s, status: 200})
	r.pass(5 * s)
	if len(c.in) != 1 || (<-c.in).index != 1 {
		t.Fatal("second 1 was not handed over alone")
	}
	r.finish(outcome{intended: s / 2, sent: s, end: 70 * s, kind: kindTimeout})
	late := <-c.in
	if late.index != 0 || late.response[classTimeout].TotalCount() != 1 {
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
	long(t)
	seconds := map[int]*logSecond{}
	for i := range 300 {
		s := newSecond()
		put(s.response[classOK], int64(i+1)*int64(time.Millisecond))
		put(s.lateness, 1500)
		seconds[i] = &logSecond{}
		seconds[i].merge(s)
	}
	for _, t0 := range []time.Time{time.UnixMilli(1795251609123), time.Unix(1795251609, 999_999_999), time.Unix(1795251600, 0)} {
		var b bytes.Buffer
		if err := writeLog(&b, t0, seconds); err != nil {
			t.Fatal(err)
		}
		reader := hdrhistogram.NewHistogramLogReader(bytes.NewReader(b.Bytes()))
		for line := 0; ; line++ {
			h, err := reader.NextIntervalHistogram()
			if err != nil {
				t.Fatal(err)
			}
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
		if err := ReadLog(&b, func(second int, tag string, h *hdrhistogram.Histogram) error {
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
