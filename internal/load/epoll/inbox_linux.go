package epoll

import (
	"sync"
)

// inbox holds functions that other goroutines leave for a worker's own thread.
type inbox struct {
	poll *poller

	mu     sync.Mutex
	posted []func()
	stop   bool
	taken  []func()
}

// post has the worker run do soon. Any goroutine may call it.
func (m *inbox) post(do func()) {
	m.mu.Lock()
	m.posted = append(m.posted, do)
	m.mu.Unlock()
	m.poll.wake()
}

// postStop makes collect report stop. Any goroutine may call it.
func (m *inbox) postStop() {
	m.mu.Lock()
	m.stop = true
	m.mu.Unlock()
	m.poll.wake()
}

// collect runs the posted functions, and reports whether the worker must stop.
func (m *inbox) collect() (stop bool) {
	m.mu.Lock()
	m.taken, m.posted = m.posted, m.taken[:0]
	stop = m.stop
	m.mu.Unlock()
	for i, do := range m.taken {
		m.taken[i] = nil
		do()
	}
	return stop
}
