package loadgen

import (
	"context"
	"net"
	"runtime"
	"sync"
	"sync/atomic"
	"time"
)

// portableLane is one worker: a pacer that makes requests due, and connections
// that carry them out.
type portableLane struct {
	job    *job
	number int
	dialer net.Dialer
	expect expectation

	mu      sync.Mutex // guards all below
	rec     recorder
	pools   []portablePool // by target
	busy    int            // requests under way
	idle    sync.Cond      // busy has become 0, or closed true
	conns   []*portableConn
	zero    time.Time // t0
	end     int64     // of sending
	quota   int64     // requests to be sent in the measure window
	clock   laneClock
	stopped bool
	closed  bool // no more requests: connections go home

	wake chan struct{} // stop was called

	opening    context.Context // ends with the drain, or by a stop before the load
	endOpening context.CancelFunc
	started    atomic.Bool
}

// portablePool is what waits for the connections of one target.
type portablePool struct {
	queue ring[int64] // intended starts
	due   sync.Cond   // the queue has grown, or the end has come
	free  int         // connections that wait for it to grow
	turn  int         // the next of the target's addresses
}

// newPortableLane makes worker i of j; it must be closed.
func newPortableLane(j *job, i int) *portableLane {
	p := &j.profile
	l := &portableLane{
		job: j, number: i, expect: newExpectation(p), rec: j.collect.recorder(), pools: make([]portablePool, len(j.targets)),
		end: int64(p.Warmup + p.Measure + p.Tail), wake: make(chan struct{}, 1), quota: j.quota(i),
	}
	l.idle.L = &l.mu
	l.opening, l.endOpening = context.WithCancel(context.Background())
	for k := range l.pools {
		l.pools[k].turn = i
		l.pools[k].due.L = &l.mu
	}
	l.conns = make([]*portableConn, share(p.Connections, p.Workers, i))
	seats := seatsOf(p, len(l.conns))
	for k := range l.conns {
		t := seats[k]
		l.conns[k] = &portableConn{
			lane: l, pool: &l.pools[t], target: &j.targets[t], buffer: make([]byte, 32<<10),
			parser: parser{content: l.expect.content(), echo: j.targets[t].echo, follow: p.Follow > 0},
			route:  route{profile: p, body: j.body},
		}
	}
	return l
}

func (l *portableLane) prewarm() error {
	if l.job.profile.NoKeepAlive {
		return nil
	}
	slots := make(chan struct{}, maxOpening)
	var opening sync.WaitGroup
	for _, c := range l.conns {
		opening.Go(func() {
			slots <- struct{}{}
			c.open() // a failure is met again by the first request
			<-slots
		})
	}
	opening.Wait()
	return nil
}

func (l *portableLane) stop() {
	if !l.started.Load() {
		l.endOpening()
	}
	select {
	case l.wake <- struct{}{}:
	default:
	}
}

func (l *portableLane) close() {
	l.endOpening()
	for _, c := range l.conns {
		c.drop()
	}
}

// now is the time since t0 in ns.
func (l *portableLane) now() int64 { return int64(time.Since(l.zero)) }

func (l *portableLane) run(t0 time.Time) *totals {
	// The pacer must not be late because it is tied to one thread.
	runtime.UnlockOSThread()
	l.zero = t0
	l.started.Store(true)
	var running sync.WaitGroup
	stopped := l.sleepUntil(0)
	if !stopped {
		for _, c := range l.conns {
			if c.conn != nil {
				l.rec.connected++
			}
		}
		for _, c := range l.conns {
			running.Go(c.work)
		}
		l.pace()
	} else {
		l.cut(0)
	}
	l.drain()
	running.Wait()
	if !l.stopped && l.sated() { // the window ends with the last answer
		l.cut(l.now())
		l.clock.nextEdge = min(l.clock.nextEdge, l.rec.window[1])
		l.clock.look(&l.rec, l.number, l.now())
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.giveUp()
	return &l.rec.totals
}

// sleepUntil waits for an instant after t0; true means that stop was called.
func (l *portableLane) sleepUntil(at int64) bool {
	d := time.Duration(at - l.now())
	if d <= 0 {
		return false
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return false
	case <-l.wake:
		return true
	}
}

// pace makes requests due by the schedule, and looks at the clocks, until the end.
func (l *portableLane) pace() {
	var s schedule
	next := int64(never)
	if l.job.profile.Rate > 0 {
		s = l.job.schedule(l.number)
		next = s.next()
	}
	turn := 0
	l.clock = laneClock{nextTick: int64(time.Second), nextEdge: l.rec.window[0]}
	clock := &l.clock
	for {
		l.mu.Lock()
		now := l.now()
		for next <= now && next < l.end && !l.sated() {
			l.rec.due(next)
			l.offer(&l.pools[l.job.turns[turn]], next)
			turn = (turn + 1) % len(l.job.turns)
			next = s.next()
		}
		clock.look(&l.rec, l.number, now)
		sated := l.sated()
		l.mu.Unlock()
		if sated {
			return
		}
		if now >= l.end && clock.nextEdge == never {
			return
		}
		if l.sleepUntil(min(next, l.end, clock.nextTick, clock.nextEdge)) {
			l.mu.Lock()
			sated := l.sated()
			l.mu.Unlock()
			if sated {
				return
			}
			l.cut(l.now())
			l.mu.Lock()
			clock.nextEdge = min(clock.nextEdge, l.rec.window[1])
			clock.look(&l.rec, l.number, l.now())
			l.mu.Unlock()
			return
		}
	}
}

// sated says that all of a given number of requests have become due; the lane is locked.
func (l *portableLane) sated() bool { return l.rec.intended >= l.quota }

// offer makes a request due that was intended at an instant; the lane is locked.
func (l *portableLane) offer(p *portablePool, intended int64) {
	if l.job.profile.Overflow == overflowDrop && p.queue.size >= p.free {
		l.rec.drop(intended)
		return
	}
	p.queue.push(intended)
	p.due.Signal()
	l.rec.queueMax = max(l.rec.queueMax, int64(p.queue.size-p.free))
}

// cut ends sending and the measure window now.
func (l *portableLane) cut(now int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.stopped, l.end = true, now
	for i := range l.rec.window {
		l.rec.window[i] = min(l.rec.window[i], now)
	}
}

// drain waits for what is under way, then sends the connections home.
func (l *portableLane) drain() {
	expire := time.AfterFunc(l.job.profile.Drain, func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.closed = true
		l.idle.Broadcast()
	})
	defer expire.Stop()
	l.mu.Lock()
	defer l.mu.Unlock()
	for !l.closed && l.waiting() > 0 {
		l.idle.Wait()
	}
	l.closed = true
	l.endOpening()
	for _, c := range l.conns {
		if c.conn != nil {
			_ = c.conn.SetDeadline(time.Unix(1, 0)) // ends a read under way
		}
	}
	for i := range l.pools {
		l.pools[i].due.Broadcast()
	}
}

// waiting counts requests that are due or under way; the lane is locked.
func (l *portableLane) waiting() int {
	n := l.busy
	for i := range l.pools {
		n += l.pools[i].queue.size
	}
	return n
}

func (l *portableLane) giveUp() {
	now := l.now()
	for i := range l.pools {
		for q := &l.pools[i].queue; q.size > 0; {
			intended, _ := q.pop()
			l.rec.unfinished++
			l.rec.finish(outcome{intended: intended, sent: -1, end: now, kind: kindNotSent})
		}
	}
	// Its goroutines have no thread of their own whose CPU time would mean something.
	l.rec.threadCPU = 0
	l.rec.publish(int(max(0, now) / 1e9))
	l.rec.flush()
}
