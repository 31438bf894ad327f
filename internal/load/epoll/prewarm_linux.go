package epoll

import (
	"time"

	"github.com/tare-mesh/tare/internal/load/job"
)

// Prewarm opens every connection, so that no connect falls into the load. It returns
// when each has been tried once, or nothing more comes of it.
func (w *Worker) Prewarm() error {
	tried := 0
	w.tick()
	for began := w.now; tried < len(w.places.conns) || w.connector.opening > 0; {
		end := w.prewarmEnd(began)
		for w.connector.opening < job.MaxOpening && tried < len(w.places.conns) && w.now < end {
			c := &w.places.conns[tried]
			tried++
			if w.places.fresh {
				c.pool.closed.Push(c.place())
				continue
			}
			w.connector.open(c)
			w.tick()
		}
		w.expire()
		wait := time.Duration(0)
		if w.connector.opening > 0 {
			wait = time.Duration(min(w.deadlines.first.deadline, end) - w.now)
		}
		w.turn(wait)
		if w.pace.stopped || w.now >= end {
			break
		}
	}
	for i := tried; i < len(w.places.conns); i++ {
		c := &w.places.conns[i]
		c.pool.closed.Push(c.place())
	}
	return nil
}

// Bounds of the time in ns that opening the connections ahead of the load takes.
const (
	prewarmMost  = int64(30 * time.Second)
	prewarmQuiet = int64(2 * time.Second) // without another usable connection
)

// prewarmEnd is when Prewarm, which began at an instant, gives up.
func (w *Worker) prewarmEnd(began int64) int64 {
	const exhausted = 16 // connects in a row: the rest would fail as well
	switch last := w.connector.lastReady; {
	case w.connector.exhausted >= exhausted:
		return w.now
	case last == 0:
		return began + w.timeout
	default:
		return min(began+max(prewarmMost, w.timeout), last+min(prewarmQuiet, w.timeout))
	}
}
