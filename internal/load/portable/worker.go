// Package portable is a worker that runs wherever Go runs: a goroutine for each connection
// over package net. Its sends are as punctual as Go's timers, which on Linux round to a
// millisecond, and the reported lateness shows it.
package portable

import (
	"context"
	"math"
	"math/rand/v2"
	"net"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tare-mesh/tare/internal/load"
	"github.com/tare-mesh/tare/internal/load/check"
	"github.com/tare-mesh/tare/internal/load/host"
	"github.com/tare-mesh/tare/internal/load/http1"
	"github.com/tare-mesh/tare/internal/load/job"
	"github.com/tare-mesh/tare/internal/load/record"
	"github.com/tare-mesh/tare/internal/load/schedule"
	"github.com/tare-mesh/tare/internal/load/target"
)

// Worker is one worker: a pacer that makes requests due, and connections
// that carry them out.
type Worker struct {
	job    *job.Job
	number int
	dialer net.Dialer
	expect check.Expectation

	mu      sync.Mutex // guards all below
	rec     record.Recorder
	pools   []pool    // by origin
	busy    int       // requests under way
	idle    sync.Cond // busy has become 0, or closed true
	conns   []*conn
	zero    time.Time // t0
	end     int64     // of sending
	quota   int64     // requests to be sent in the measure window
	clock   record.Ticker
	stopped bool
	closed  bool // no more requests are sent; connection goroutines return

	thinks      *rand.Rand      // nil: connections do not think
	over        context.Context // ends with the sending
	endThinking context.CancelFunc

	wake chan struct{} // stop was called
	fine time.Duration // slept by the thread before a send, so that it is punctual

	opening    context.Context // ends with the drain, or by a stop before the load
	endOpening context.CancelFunc
	started    atomic.Bool
}

// pool holds the requests that wait for the connections of one origin.
type pool struct {
	cursor job.Cursor
	queue  job.Queue[int64] // intended starts
	due    sync.Cond        // the queue has grown, or the end has come
	free   int              // connections that wait for it to grow
	turn   int              // the next of the target's addresses
}

// NewWorker makes worker i of j. The worker must be closed.
func NewWorker(j *job.Job, i int) *Worker { return NewWorkerOver(j, i, nil) }

// NewWorkerOver is NewWorker over the carriers that carry makes, and nil makes connections of HTTP/1.1.
func NewWorkerOver(j *job.Job, i int, carry Carriers) *Worker {
	p := &j.Profile
	l := &Worker{
		job: j, number: i, expect: check.New(p), rec: j.Collector.Recorder(), pools: make([]pool, len(j.Origins)),
		end: int64(p.Warmup + p.Measure + p.Tail), wake: make(chan struct{}, 1), quota: j.Quota(i),
	}
	l.idle.L = &l.mu
	l.opening, l.endOpening = context.WithCancel(context.Background())
	l.over, l.endThinking = context.WithCancel(context.Background())
	if p.Think != nil {
		l.thinks = rand.New(rand.NewPCG(p.Seed, uint64(j.Number(i, 0))))
	}
	for k := range l.pools {
		l.pools[k].turn, l.pools[k].cursor = i, job.Cursor{Origin: &j.Origins[k]}
		l.pools[k].due.L = &l.mu
	}
	l.conns = make([]*conn, schedule.Share(p.Connections, p.Workers, i))
	assigned := j.Assign(len(l.conns))
	for k := range l.conns {
		pl := &l.pools[assigned[k]]
		first := pl.cursor.Targets[0]
		l.conns[k] = &conn{
			worker: l, index: int32(k), pool: pl, target: first, buffer: make([]byte, 32<<10),
			parser: http1.Parser{Content: l.expect.NewContent(), Echo: first.Echo, Follow: p.Follow > 0, KeepCookies: p.Cookies, Versions: l.rec.Versions},
			route:  http1.Redirects{Profile: p, Body: j.Body, Caches: len(l.conns)},
		}
		l.conns[k].spent = float64(k) / float64(len(l.conns)) // so that they are not replaced at once
		if p.Cookies {
			l.conns[k].user = target.NewUser(pl.cursor.Targets)
		}
	}
	if carry != nil {
		l.carryBy(carry)
	}
	return l
}

func (l *Worker) Prewarm() error {
	if l.job.Profile.NoKeepAlive {
		return nil
	}
	slots := make(chan struct{}, job.MaxOpening)
	var opening sync.WaitGroup
	end := time.Now().Add(max(prewarmMost, l.job.Profile.Timeout))
	for _, c := range l.conns {
		opening.Go(func() {
			slots <- struct{}{}
			if time.Now().Before(end) {
				c.open() // a failure is met again by the first request
			}
			<-slots
		})
	}
	opening.Wait()
	return nil
}

// prewarmMost bounds the time in which connections are opened ahead of the load.
const prewarmMost = 30 * time.Second

func (l *Worker) Stop() {
	if !l.started.Load() {
		l.endOpening()
	}
	select {
	case l.wake <- struct{}{}:
	default:
	}
}

func (l *Worker) Close() {
	l.endOpening()
	l.endThinking()
	for _, c := range l.conns {
		c.drop()
		if c.carrier != nil {
			c.carrier.Close()
		}
	}
}

func (l *Worker) Run(t0 time.Time) *record.Totals {
	if l.fine == 0 { // else the thread sleeps by itself
		// The pacer must not be late because it is tied to one thread.
		runtime.UnlockOSThread()
	}
	l.zero = t0
	l.started.Store(true)
	var running sync.WaitGroup
	stopped := l.sleepUntil(0)
	if !stopped {
		for _, c := range l.conns {
			if c.isOpen() && !c.shares {
				l.rec.Open++
			}
		}
		for _, c := range l.conns {
			running.Go(c.work)
		}
		stopped = l.pace()
	} else {
		l.cut(0)
	}
	l.drain(stopped)
	running.Wait()
	if !l.stopped && l.quotaReached() { // the window ends with the last answer
		l.cut(l.now())
		l.clock.NextEdge = min(l.clock.NextEdge, l.rec.Window[1])
		l.clock.Advance(&l.rec, l.now())
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.abandon()
	return &l.rec.Totals
}

// pacer makes the requests of a schedule due.
type pacer struct {
	*Worker
	schedule schedule.Schedule // nil: closed loop
	next     int64             // of the schedule, load.Never if there is none
	turn     int               // of the job's rotation
}

// pace makes requests due by the schedule, and advances the ticker, until the end, or a stop.
func (l *Worker) pace() (stopped bool) {
	p := newPacer(l)
	l.clock = record.Ticker{NextTick: int64(time.Second), NextEdge: l.rec.Window[0]}
	clock := &l.clock
	for {
		l.mu.Lock()
		now := l.now()
		p.fire(now + 1)
		clock.Advance(&l.rec, now)
		quotaReached := l.quotaReached()
		l.mu.Unlock()
		if quotaReached || now >= l.end && clock.NextEdge == load.Never {
			return false
		}
		if l.sleepUntil(min(p.next, l.end, clock.NextTick, clock.NextEdge)) {
			l.mu.Lock()
			quotaReached := l.quotaReached()
			l.mu.Unlock()
			if !quotaReached {
				p.stop()
			}
			return true
		}
	}
}

func newPacer(l *Worker) *pacer {
	p := &pacer{Worker: l, next: load.Never}
	if l.job.Profile.Rate > 0 {
		p.schedule = l.job.Schedule(l.number)
		l.mu.Lock()
		defer l.mu.Unlock()
		p.advance()
	}
	return p
}

// sleepUntil waits for an instant after t0. True means that stop was called.
func (l *Worker) sleepUntil(at int64) bool {
	d := time.Duration(at - l.now())
	if d <= 0 {
		return false
	}
	if d > l.fine {
		timer := time.NewTimer(d - l.fine)
		defer timer.Stop()
		select {
		case <-timer.C:
		case <-l.wake:
			return true
		}
	}
	if l.fine > 0 {
		host.Sleep(time.Duration(at - l.now()))
	}
	return false
}

// stop ends sending. A pacer that stalled until the stop first fires the requests of the measure window, if that
// is over.
func (p *pacer) stop() {
	p.mu.Lock()
	if end := p.rec.Window[1]; p.now() >= end {
		p.fire(end)
	}
	p.mu.Unlock()
	p.cut(p.now())
	p.mu.Lock()
	defer p.mu.Unlock()
	p.clock.NextEdge = min(p.clock.NextEdge, p.rec.Window[1])
	p.clock.Advance(&p.rec, p.now())
}

// fire makes requests due that are intended before an instant, while the worker is locked.
func (p *pacer) fire(until int64) {
	for p.next < min(until, p.end) && !p.quotaReached() {
		p.rec.Due(p.next)
		p.offer(&p.pools[p.job.Rotation[p.turn]], p.next)
		p.turn = (p.turn + 1) % len(p.job.Rotation)
		p.advance()
	}
}

// advance moves to the schedule's next request, while the worker is locked.
func (p *pacer) advance() {
	p.next = p.schedule.Next()
	if p.next == load.Never && p.quota < math.MaxInt64 {
		p.quota = p.rec.Intended // the schedule has fewer: the time of such a load is hours
	}
}

// quotaReached reports whether all of a given number of requests have become due, while the worker is locked.
func (l *Worker) quotaReached() bool { return l.rec.Intended >= l.quota }

// offer makes a request due that was intended at an instant, while the worker is locked.
func (l *Worker) offer(p *pool, intended int64) {
	if l.job.Profile.Overflow == load.OverflowDrop && p.queue.Size >= p.free {
		l.rec.Drop(intended)
		p.next(nil)
		return
	}
	p.queue.Push(intended)
	p.due.Signal()
	l.rec.QueueMax = max(l.rec.QueueMax, int64(p.queue.Size-p.free))
}

// cut ends sending and the measure window now.
func (l *Worker) cut(now int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.stopped, l.end = true, now
	l.endThinking()
	for i := range l.rec.Window {
		l.rec.Window[i] = min(l.rec.Window[i], now)
	}
}

// drain waits for the requests under way, then ends the connections' goroutines.
func (l *Worker) drain(stopped bool) {
	over := make(chan struct{})
	var expiring sync.WaitGroup
	expiring.Go(func() { l.expire(stopped, over) })
	defer expiring.Wait()
	defer close(over)
	l.mu.Lock()
	defer l.mu.Unlock()
	for !l.closed && l.waiting() > 0 {
		l.idle.Wait()
	}
	l.closed = true
	l.endThinking()
	l.endOpening()
	for _, c := range l.conns {
		if c.isOpen() && !c.shares {
			l.rec.Held++
		}
		if c.conn != nil {
			_ = c.conn.SetDeadline(time.Unix(1, 0)) // ends a read under way
		}
	}
	for i := range l.pools {
		l.pools[i].due.Broadcast()
	}
}

// expire ends the drain after its time. All of a given number of requests are sent first,
// however long that takes until the end of sending, or a stop.
func (l *Worker) expire(stopped bool, over <-chan struct{}) {
	for now := l.now(); !stopped && l.job.Profile.Requests > 0 && now < l.end; now = l.now() {
		select {
		case <-over:
			return
		case <-l.wake:
			stopped = true
		case <-time.After(time.Duration(min(l.end, l.clock.NextTick, l.clock.NextEdge) - now)):
			l.mu.Lock()
			l.clock.Advance(&l.rec, l.now())
			l.mu.Unlock()
		}
	}
	select {
	case <-over:
	case <-time.After(l.job.Profile.Drain):
		l.mu.Lock()
		defer l.mu.Unlock()
		l.closed = true
		l.idle.Broadcast()
	}
}

// waiting counts requests that are due or under way, while the worker is locked.
func (l *Worker) waiting() int {
	n := l.busy
	for i := range l.pools {
		n += l.pools[i].queue.Size
	}
	return n
}

func (l *Worker) abandon() {
	now := l.now()
	for i := range l.pools {
		for q := &l.pools[i].queue; q.Size > 0; {
			intended, _ := q.Pop()
			t, _ := l.pools[i].next(nil)
			l.rec.Unfinished++
			l.rec.Finish(&record.Outcome{Intended: intended, Sent: -1, End: now, Kind: load.FailureNotSent, Path: t.Path})
		}
	}
	// Its goroutines have no thread of their own whose CPU time would mean something.
	l.rec.ThreadCPU = 0
	l.rec.Publish(int(max(0, now) / 1e9))
	l.rec.Flush()
}

// now is the time since t0 in ns.
func (l *Worker) now() int64 { return int64(time.Since(l.zero)) }

// next is the target of the next request, which c sends, and its number among the worker's,
// while the worker is locked. A user goes through the requests in their order.
func (p *pool) next(c *conn) (t *target.Target, number int64) {
	i, number := p.cursor.Next()
	if c != nil && c.user != nil {
		i = p.cursor.Turns[c.user.Turn]
		c.user.Turn = (c.user.Turn + 1) % len(p.cursor.Turns)
	}
	return p.cursor.Targets[i], number
}
