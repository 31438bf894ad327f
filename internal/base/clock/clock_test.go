package clock

import (
	"errors"
	"testing"
	"time"

	"github.com/tare-mesh/tare/test/must"
)

// farClock is two clocks and the network path between them, in simulated time.
type farClock struct {
	at          time.Time
	ahead       time.Duration
	there, back []time.Duration // of each question
	n           int
}

func (w *farClock) now() time.Time { return w.at }

func (w *farClock) ask() (Stamps, error) {
	w.at = w.at.Add(w.there[w.n%len(w.there)])
	received := w.at.Add(w.ahead)
	w.at = w.at.Add(30 * time.Microsecond) // at work on the answer
	sent := w.at.Add(w.ahead)
	w.at = w.at.Add(w.back[w.n%len(w.back)])
	w.n++
	return Stamps{received.UnixNano(), sent.UnixNano()}, nil
}

func TestMeasure(t *testing.T) {
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
		ahead, bound, err := Measure(w.now, w.ask)
		must.OK(t, err)
		if wrong := (ahead - test.ahead).Abs(); bound != test.bound || wrong > bound {
			t.Errorf("%+v: ahead %v ± %v, wrong by %v", test, ahead, bound, wrong)
		}
	}
	if _, _, err := Measure(time.Now, func() (Stamps, error) { return Stamps{}, errors.New("gone") }); err == nil {
		t.Error("a question without an answer is not an error")
	}
	if _, _, err := Measure(time.Now, func() (Stamps, error) { return Stamps{2, 1}, nil }); err == nil {
		t.Error("an answer before its question is not an error")
	}
}
