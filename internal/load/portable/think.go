package portable

import (
	"time"
)

// think waits until c's time to think is over, or the load.
func (c *conn) think() {
	l, p := c.worker, &c.worker.job.Profile
	if l.thinks == nil {
		return
	}
	l.mu.Lock()
	wait := p.Think.Min + time.Duration(l.thinks.Int64N(int64(p.Think.Max-p.Think.Min)+1))
	if !c.thought { // the first requests are spread
		c.thought, wait = true, time.Duration(l.thinks.Int64N(int64(p.Think.Max)))
	}
	end := time.Duration(l.end - l.now())
	l.mu.Unlock()
	timer := time.NewTimer(min(wait, end))
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-l.over.Done():
	}
}
