package portable

import (
	"net/http"
	"testing"
	"time"

	"github.com/tare-mesh/tare/internal/base/must"
	"github.com/tare-mesh/tare/internal/load"
	"github.com/tare-mesh/tare/internal/load/job"
	"github.com/tare-mesh/tare/internal/load/record"
)

// A pacer that stalls until it is stopped, after the measure window, does not lose requests of the window.
func TestStopAfterAStall(t *testing.T) {
	p := load.Profile{Targets: []string{"http://127.0.0.1:80/"}, Method: http.MethodGet, Connections: 1, Rate: 10, Arrivals: load.Constant,
		Warmup: time.Second, Measure: time.Second, Tail: time.Second, Timeout: time.Minute, ExpectSize: -1}.WithDefaults()
	j := must.Get(job.Prepare(t.Context(), p, nil, nil))(t)
	l := NewWorker(j, 0)
	defer l.Close()
	l.zero = time.Now().Add(-2500 * time.Millisecond) // the pacer was stopped
	l.clock = record.Ticker{NextTick: load.Never, NextEdge: l.rec.Window[0]}
	newPacer(l).stop()
	if l.rec.Intended != 10 || l.waiting() != 20 || !l.stopped {
		t.Errorf("%d requests intended in the window, want 10; %d wait for a connection, want 20; stopped: %v", l.rec.Intended, l.waiting(), l.stopped)
	}
}
