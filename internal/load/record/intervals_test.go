package record

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/tare-mesh/tare/internal/base/hdrlog"
	"github.com/tare-mesh/tare/test/must"
)

// Intervals are the seconds without a gap, divided at the edges of the window, and no instant is in two.
func TestIntervals(t *testing.T) {
	ms := time.Millisecond
	for _, c := range []struct {
		warmup, measure time.Duration
		want            []time.Duration // beginnings up to 3 s
	}{
		{time.Second, time.Second, []time.Duration{0, 1000, 2000}},
		{900 * ms, 1100 * ms, []time.Duration{0, 900, 1000, 2000}},
		{200 * ms, 500 * ms, []time.Duration{0, 200, 700, 1000, 2000}},
		{0, 2500 * ms, []time.Duration{0, 1000, 2000, 2500}},
		{900*ms + time.Microsecond, 2*time.Second - time.Microsecond, []time.Duration{0, 1000, 2000, 2900}},
	} {
		v := intervalsOf(c.warmup, c.measure)
		var got []time.Duration
		last := time.Duration(0)
		for at := time.Duration(0); at < 3*time.Second; at += 50 * ms {
			from, to := v.bounds(int64(at))
			if at < from || at >= to {
				t.Fatalf("%v is not in %v to %v", at, from, to)
			}
			if len(got) == 0 || got[len(got)-1] != from/ms {
				if from != last || v.index(int64(at)) != len(got) {
					t.Errorf("%v+%v: interval %d begins at %v, the one before ends at %v", c.warmup, c.measure, v.index(int64(at)), from, last)
				}
				got, last = append(got, from/ms), to
			}
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%v+%v: intervals begin at %v, want %v", c.warmup, c.measure, got, c.want)
		}
	}
}

// The log has every request of a window that does not begin or end with a second, and no other.
func TestWindowIsWholeInTheLog(t *testing.T) {
	p := profile()
	p.Warmup, p.Measure = 900*time.Millisecond, 1200*time.Millisecond
	c := NewCollector(&p, nil)
	r := c.Recorder()
	c.Start(1)
	for at := int64(0); at < int64(3*time.Second); at += int64(10 * time.Millisecond) {
		r.Due(at)
		r.Finish(&Outcome{Intended: at, Sent: at, End: at + int64(time.Millisecond), Status: 200})
	}
	r.Publish(2)
	r.Flush()
	c.Finish()
	t0 := time.Unix(1_800_000_000, 123_456_789)
	var log, merged bytes.Buffer
	must.OK(t, c.WriteLog(&log, t0))
	text := log.Bytes()
	window := func(log []byte, tag string) int64 {
		path := filepath.Join(t.TempDir(), "latency.hdr")
		must.OK(t, os.WriteFile(path, log, 0o600))
		sums := must.Get(hdrlog.ReadFile(path, hdrlog.Window{From: 0.9, To: 2.1}, nil))(t)
		return sums.Total(tag)
	}
	if n := window(text, "response.2xx"); n != 120 {
		t.Errorf("%d requests in the window", n)
	}
	must.OK(t, MergeWindow(bytes.NewReader(text), &merged, t0, p.Warmup, p.Warmup+p.Measure))
	if n := window(merged.Bytes(), "lateness"); n != 120 {
		t.Errorf("%d requests in the merged window", n)
	}
}
