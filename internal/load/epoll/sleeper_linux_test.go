package epoll

import (
	"testing"
	"time"

	"github.com/tare-mesh/tare/internal/load"
)

// TestPauseUntilTheAnswer checks that a worker with a spin window is awake when the
// response arrives. It sleeps if the response is overdue, if responses are slow, and
// if polling would take the whole core.
func TestPauseUntilTheAnswer(t *testing.T) {
	const now, window = int64(time.Second), 60 * time.Microsecond
	for _, c := range []struct {
		name       string
		spin       time.Duration
		rate       float64
		inFlight   int
		sent, took time.Duration // the last request, ago, and the answers before it
		sleeps     bool
	}{
		{"just sent", window, 1000, 1, 10 * time.Microsecond, 50 * time.Microsecond, false},
		{"overdue", window, 1000, 1, 150 * time.Microsecond, 50 * time.Microsecond, true},
		{"nothing under way", window, 1000, 0, 10 * time.Microsecond, 50 * time.Microsecond, true},
		{"a slow server", window, 1000, 1, 10 * time.Microsecond, time.Millisecond, true},
		{"no room for it", window, 10_000, 1, 10 * time.Microsecond, 50 * time.Microsecond, true},
		{"no core to spare", 0, 1000, 1, 10 * time.Microsecond, 50 * time.Microsecond, true},
	} {
		p := load.Profile{Rate: c.rate, Workers: 1}
		w := &Worker{
			inFlight: c.inFlight, clock: clock{now: now},
			sleep:  sleeper{spin: int64(c.spin), replyRoom: replyRoom(&p, c.spin), lastSend: now - int64(c.sent)},
			pace:   pacer{nextDue: now + int64(10*time.Millisecond), sendEnd: 2 * now, drainEnd: 3 * now},
			places: places{nextRetry: load.Never},
		}
		w.ticker.NextTick, w.ticker.NextEdge = load.Never, load.Never
		for range 5000 {
			w.sleep.answered(int64(c.took))
		}
		if got := w.pause() > 0; got != c.sleeps {
			t.Errorf("%s: sleeps %v, want %v (answers taken for %v)", c.name, got, c.sleeps, time.Duration(w.sleep.reply))
		}
	}
}

// The share of the core is for the highest rate of the load, and for one worker.
func TestReplyRoom(t *testing.T) {
	for _, c := range []struct {
		p    load.Profile
		want time.Duration
	}{
		{load.Profile{Rate: 5000, Workers: 1}, 90 * time.Microsecond},
		{load.Profile{Rate: 5000, Workers: 2}, 240 * time.Microsecond},
		{load.Profile{Rate: 5000, Workers: 1, Parts: 2}, 240 * time.Microsecond},
		{load.Profile{Rate: 10, Workers: 1}, time.Duration(replyMost)},
		{load.Profile{Rate: 100, Workers: 1, Segments: []load.Segment{{For: time.Second, From: 100, To: 5000}}}, 90 * time.Microsecond},
		{load.Profile{Rate: 20_000, Workers: 1}, 0},
	} {
		if got := time.Duration(replyRoom(&c.p, 60*time.Microsecond)); got != c.want {
			t.Errorf("%+v: %v, want %v", c.p, got, c.want)
		}
	}
}
