package epoll

import (
	"sync"
)

// inbox is where other goroutines leave what a worker is to do on its own thread.
type inbox struct {
	mu    sync.Mutex
	left  []func()
	told  bool // to stop
	taken []func()
}

// post has do run by the worker, soon. Any goroutine may call it.
func (w *Worker) post(do func()) {
	w.mail.mu.Lock()
	w.mail.left = append(w.mail.left, do)
	w.mail.mu.Unlock()
	w.poll.wake()
}

// Stop makes the worker stop sending. Any goroutine may call it.
func (w *Worker) Stop() {
	w.mail.mu.Lock()
	w.mail.told = true
	w.mail.mu.Unlock()
	w.poll.wake()
}

// collect runs what was posted, and says whether the worker was told to stop.
func (w *Worker) collect() (told bool) {
	m := &w.mail
	m.mu.Lock()
	m.taken, m.left = m.left, m.taken[:0]
	told = m.told
	m.mu.Unlock()
	for i, do := range m.taken {
		m.taken[i] = nil
		do()
	}
	return told
}
