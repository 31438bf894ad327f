package kube

import (
	"errors"
	"testing"
)

// Commands go to the workers in turn, from the first one after all have ended. A busy pool, a lost pod and a removed
// deployment refuse more.
func TestWorkerPoolReserves(t *testing.T) {
	var lost error
	p := &workerPool{workers: []*loadWorker{{pod: "a"}, {pod: "b"}, {pod: "c"}}, lost: func() error { return lost }}
	next := func(want int) {
		t.Helper()
		if i, err := p.reserve(nextWorker); err != nil || i != want {
			t.Errorf("worker %d, %v, want %d", i, err, want)
		}
	}
	next(0)
	next(1)
	p.release()
	next(2) // one still runs
	if i, err := p.reserve(nextWorker); err == nil {
		t.Errorf("worker %d has two commands", i)
	}
	p.release()
	p.release()
	next(0)
	p.release()
	if _, err := p.reserve(1); err != nil {
		t.Error(err)
	}
	next(2)
	lost = errors.New("pod b is gone")
	if _, err := p.reserve(nextWorker); !errors.Is(err, lost) {
		t.Errorf("with a lost pod: %v", err)
	}
	if err := p.stop(t.Context()); err != nil {
		t.Error(err)
	}
	if _, err := p.reserve(0); !errors.Is(err, errRemoved) {
		t.Errorf("after removal: %v", err)
	}
}
