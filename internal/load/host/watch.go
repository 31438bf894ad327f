package host

import (
	"time"

	"github.com/tare-mesh/tare/internal/load"
)

// Watch reads the machine at the edges of the measure window.
type Watch struct {
	start, end reading
	done       chan struct{}
}

// StartWatch begins to watch for a window that starts at the given time. The end
// is read when it is over or stop is closed.
func StartWatch(start time.Time, measure time.Duration, stop <-chan struct{}) *Watch {
	h := &Watch{done: make(chan struct{})}
	go func() {
		defer close(h.done)
		for _, edge := range []struct {
			at      time.Time
			reading *reading
		}{{start, &h.start}, {start.Add(measure), &h.end}} {
			timer := time.NewTimer(time.Until(edge.at))
			select {
			case <-timer.C:
			case <-stop:
				timer.Stop()
			}
			*edge.reading = read()
		}
	}()
	return h
}

// Shares waits for the readings, and relates them to a window of the given length.
func (h *Watch) Shares(wall time.Duration) load.Host {
	<-h.done
	var r load.Host
	if all := h.end.all - h.start.all; all > 0 {
		r.StealRatio = (h.end.steal - h.start.steal) / all
	}
	if wall > 0 {
		r.CPUPressure = min(1, (h.end.pressure-h.start.pressure)/wall.Seconds())
	}
	return r
}
