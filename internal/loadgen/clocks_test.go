package loadgen

import (
	"errors"
	"math"
	"strings"
	"testing"
	"time"
)

// farClock is two clocks and the way between them, in a time of its own.
type farClock struct {
	at          time.Time
	ahead       time.Duration
	there, back []time.Duration // of each question
	n           int
}

func (w *farClock) now() time.Time { return w.at }

func (w *farClock) ask() (ClockStamps, error) {
	w.at = w.at.Add(w.there[w.n%len(w.there)])
	received := w.at.Add(w.ahead)
	w.at = w.at.Add(30 * time.Microsecond) // at work on the answer
	sent := w.at.Add(w.ahead)
	w.at = w.at.Add(w.back[w.n%len(w.back)])
	w.n++
	return ClockStamps{received.UnixNano(), sent.UnixNano()}, nil
}

func TestMeasureClock(t *testing.T) {
	const us = time.Microsecond
	for _, test := range []struct {
		ahead       time.Duration
		there, back []time.Duration
		bound       time.Duration
	}{
		{0, []time.Duration{50 * us}, []time.Duration{50 * us}, 50 * us},
		{3 * time.Second, []time.Duration{50 * us}, []time.Duration{50 * us}, 50 * us},
		{-7 * time.Millisecond, []time.Duration{100 * us}, []time.Duration{0}, 50 * us}, // as lopsided as it can be
		{-7 * time.Millisecond, []time.Duration{0}, []time.Duration{100 * us}, 50 * us},
		// The quickest answer counts, not the slow ones with their queues.
		{time.Hour, []time.Duration{900 * us, 40 * us, 5000 * us}, []time.Duration{10 * us, 20 * us, 10 * us}, 30 * us},
	} {
		w := &farClock{at: time.Unix(1_800_000_000, 0), ahead: test.ahead, there: test.there, back: test.back}
		c, err := MeasureClock(w.now, w.ask)
		if err != nil {
			t.Fatal(err)
		}
		wrong := math.Abs(c.AheadUS - float64(test.ahead)/1e3)
		if c.BoundUS != float64(test.bound)/1e3 || wrong > c.BoundUS+0.001 {
			t.Errorf("%+v: %+v, wrong by %v µs", test, c, wrong)
		}
	}
	if _, err := MeasureClock(time.Now, func() (ClockStamps, error) { return ClockStamps{}, errors.New("gone") }); err == nil {
		t.Error("a question without an answer is no error")
	}
	if _, err := MeasureClock(time.Now, func() (ClockStamps, error) { return ClockStamps{2, 1}, nil }); err == nil {
		t.Error("an answer before its question is no error")
	}
}

// Parts whose clocks differ, and which started at one instant all the same, are one
// load; how far the clocks are apart is told.
func TestMergeOverSkewedClocks(t *testing.T) {
	at := time.Unix(1_800_000_000, 0)
	part := func(ahead, bound time.Duration) Report {
		var totals = newTotals()
		r := Report{Loop: "open", Started: at.Add(ahead), MeasureStart: at.Add(ahead), MeasureEnd: at.Add(ahead + time.Second), Verdict: "ok", Parts: totals.distributions()}
		r.OnClock(ClockOf(ahead, bound))
		return r
	}
	for _, test := range []struct {
		parts       []Report
		skew, bound float64
		warning     string
	}{
		{[]Report{part(0, 20*time.Microsecond), part(200*time.Microsecond, 60*time.Microsecond)}, 200, 120, ""},
		{[]Report{part(-2*time.Second, 20*time.Microsecond), part(3*time.Second, 60*time.Microsecond)}, 5e6, 120, "differ by 5000000 µs"},
		{[]Report{part(0, 900*time.Microsecond), part(0, 0)}, 0, 1800, "only to ± 1800 µs"},
	} {
		m, err := Merge(test.parts)
		if err != nil {
			t.Fatal(err)
		}
		said := strings.Join(m.Warnings, "\n")
		if m.ClockSkewUS != test.skew || m.ClockBoundUS != test.bound || !m.Started.Equal(at) || strings.Contains(m.Verdict, "apart") ||
			!strings.Contains(said, test.warning) || test.warning == "" && strings.Contains(said, "clocks") {
			t.Errorf("%v ± %v, started %v, %s, %q", m.ClockSkewUS, m.ClockBoundUS, m.Started, m.Verdict, m.Warnings)
		}
	}
	unknown := []Report{part(0, 0), part(0, 0)}
	unknown[1].Clock = nil
	if m, err := Merge(unknown); err != nil || m.ClockBoundUS != 0 {
		t.Errorf("%v, %+v", err, m)
	}
}
