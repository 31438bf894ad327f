package kube

import (
	"sync"
	"time"
)

// patienceFor is how long a wait goes on before anybody is told of it: most are over by then.
const patienceFor = 10 * time.Second

// patience passes on what a wait reports once the wait has taken long.
type patience struct {
	report func(string)
	timer  *time.Timer

	mu   sync.Mutex
	last string
	long bool
	over bool
}

func newPatience(report func(string)) *patience {
	p := &patience{report: report}
	p.timer = time.AfterFunc(patienceFor, func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.long = true
		p.tell()
	})
	return p
}

// hear takes what is reported.
func (p *patience) hear(s string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.last = s
	if p.long {
		p.tell()
	}
}

// tell passes on the last report; the lock is held.
func (p *patience) tell() {
	if p.last != "" && !p.over {
		p.report(p.last)
	}
}

// end is called when the wait is over.
func (p *patience) end() {
	p.timer.Stop()
	p.mu.Lock()
	defer p.mu.Unlock()
	p.over = true
}
