package epoll

import (
	"context"
	"fmt"
	"net/http"
	"net/netip"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/tare-mesh/tare/internal/load"
	"github.com/tare-mesh/tare/internal/load/check"
	"github.com/tare-mesh/tare/internal/load/host"
	"github.com/tare-mesh/tare/internal/load/http1"
	"github.com/tare-mesh/tare/internal/load/http2"
	"github.com/tare-mesh/tare/internal/load/job"
	"github.com/tare-mesh/tare/internal/load/record"
	"github.com/tare-mesh/tare/internal/load/schedule"
)

// NewWorker makes worker number of j; it must be closed.
func NewWorker(j *job.Job, number int) (*Worker, error) {
	p := &j.Profile
	poll, err := newPoller()
	if err != nil {
		return nil, fmt.Errorf("open poller: %w", err)
	}
	w := &Worker{
		number: number, job: j, poll: poll,
		buffer: make([]byte, readBuffer), pools: make([]pool, len(j.Targets)),
		drops: p.Overflow == load.OverflowDrop, fresh: p.NoKeepAlive,
		resting: map[netip.AddrPort]int64{}, timeout: int64(p.Timeout), expect: check.New(p), spin: int64(j.Spin),
		rec: j.Collector.Recorder(), zero: time.Now(), nextDue: load.Never, nextRetry: load.Never,
		Ticker: record.Ticker{NextTick: int64(time.Second), NextEdge: int64(p.Warmup)},
		end:    int64(p.Warmup + p.Measure + p.Tail), drain: int64(p.Drain), quota: j.Quota(number),
	}
	w.lookups, w.endLookups = context.WithCancel(context.Background())
	w.route = http1.Redirects{Profile: p, Body: j.Body}
	w.drainEnd = w.end + w.drain
	if p.Rate > 0 {
		w.schedule = j.Schedule(number)
		w.wakeMost, w.replyRoom = wakeMost(p), replyRoom(p, j.Spin)
	}
	for i := range w.pools {
		t := &j.Targets[i]
		w.pools[i] = pool{target: t, turn: number, bodily: p.Method != http.MethodHead}
		if t.TLS != nil && w.plain == nil {
			w.plain = make([]byte, plainBuffer)
		}
	}
	w.conns = make([]conn, schedule.Share(p.Connections, p.Workers, number))
	seats := schedule.Assign(p, len(w.conns))
	for i := range w.conns {
		w.conns[i] = conn{parser: http1.Parser{Content: w.expect.NewContent(), Echo: w.pools[seats[i]].target.Echo, Follow: p.Follow > 0}, index: int32(i), fd: -1, pool: &w.pools[seats[i]]}
		c := &w.conns[i]
		c.of = c
		if p.Follow == 0 { // a redirect's header says more than is remembered
			c.parser.Memo = &c.pool.header
		}
		if h2 := c.pool.target.HTTP2; h2 != nil {
			c.session = http2.NewSession(h2, &w.expect, p.Streams, c.pool.bodily, p.Protocol == load.ProtocolGRPC)
			c.session.Many = p.GRPCStream
			c.calls = make([]streamCall, c.session.Size())
		}
	}
	return w, nil
}

func (w *Worker) Run(t0 time.Time) *record.Totals {
	w.start(t0)
	w.load()
	return &w.rec.Totals
}

func (w *Worker) Close() {
	for i := range w.conns {
		w.drop(&w.conns[i])
	}
	for _, d := range w.detours {
		w.drop(d)
	}
	w.endLookups()
	w.aides.Wait() // they wake the poller
	w.poll.close()
}

// readBuffer is shared by a worker's connections: a response is parsed as it
// arrives and never kept.
const readBuffer = 256 << 10

// Worker is one OS thread of the engine: its own poller, connections, share of
// the schedule and histograms. Nothing of it is shared while load runs.
type Worker struct {
	number int
	job    *job.Job
	poll   *poller
	rec    record.Recorder
	pools  []pool
	conns  []conn
	buffer []byte
	plain  []byte // content of one TLS record; nil without TLS
	mail   inbox
	aides  sync.WaitGroup // goroutines that post

	lookups    context.Context // ends with the worker
	endLookups context.CancelFunc
	resting    map[netip.AddrPort]int64 // addresses to be passed over until an instant

	record.Ticker

	schedule schedule.Schedule // nil: closed loop
	timeout  int64
	expect   check.Expectation
	drops    bool  // a request that finds no free connection is dropped
	fresh    bool  // a connection for every request
	spin     int64 // the window before a send in which the worker polls
	wakeLate int64 // how late a sleep tends to end, see learnWake
	wakeMost int64 // the most by which a sleep is cut short on that account
	reply    int64 // how long answers tend to take, see learnReply
	lastSend int64
	// replyRoom is for how long after a send the worker may poll for answers.
	replyRoom int64

	// Instants in ns from t0 (before the start: from the engine's creation).
	zero      time.Time
	now       int64
	nextDue   int64 // never: the schedule is over
	nextTurn  int
	nextRetry int64
	end       int64 // of sending
	quota     int64 // requests to be sent in the measure window
	drainEnd  int64

	started  bool
	stopped  bool // told to stop sending before the schedule ends
	opening  int  // connects under way
	inFlight int
	// The list of deadlines: all time-outs are equal, so the first in is the first due.
	first, last *awaited
	dirty       []*conn // sessions with something to send

	route   http1.Redirects
	detours []*conn
	origins map[string]*pool // that redirects led to

	drain int64
	taken int64 // involuntary context switches at the last tick
}

// tick reads the clock.
func (w *Worker) tick() { w.now = int64(time.Since(w.zero)) }

func (w *Worker) closedLoop() bool { return w.schedule == nil }

// sending says whether requests may still be intended.
func (w *Worker) sending() bool {
	return !w.stopped && (!w.started || w.now < w.end && w.rec.Intended < w.quota)
}

// Prewarm opens every connection, so that no connect falls into the load. It
// returns when each has been tried once.
func (w *Worker) Prewarm() error {
	tried := 0
	for w.tick(); tried < len(w.conns) || w.opening > 0; {
		for w.opening < job.MaxOpening && tried < len(w.conns) {
			c := &w.conns[tried]
			tried++
			if w.fresh {
				c.pool.closed.Push(c.place())
				continue
			}
			w.tick()
			w.open(c)
		}
		w.expire()
		wait := time.Duration(0)
		if w.opening > 0 {
			wait = time.Duration(w.first.deadline - w.now)
		}
		w.turn(wait)
		if w.stopped {
			break
		}
	}
	return nil
}

// start moves the worker's clock to t0.
func (w *Worker) start(t0 time.Time) {
	shift := int64(t0.Sub(w.zero))
	w.zero = t0
	for a := w.first; a != nil; a = a.later {
		a.deadline -= shift
	}
	for i := range w.conns {
		w.conns[i].retryAt -= shift
	}
	for addr := range w.resting {
		w.resting[addr] -= shift
	}
	w.tick()
	w.nextRetry = w.now
}

// load carries out the worker's share of the load.
func (w *Worker) load() {
	w.waitForStart()
	w.kickOff()
	for {
		w.tick()
		w.fire()
		w.expire()
		w.housekeep()
		if w.over() {
			break
		}
		w.turn(w.pause())
	}
	w.giveUp()
}

// waitForStart handles events, such as servers that close connections, until t0.
func (w *Worker) waitForStart() {
	for w.tick(); w.now < 0 && !w.stopped; w.tick() {
		w.turn(time.Duration(-w.now))
	}
}

// kickOff makes the first requests due.
func (w *Worker) kickOff() {
	w.started = true
	for i := range w.conns {
		if s := w.conns[i].state; s == connIdle || s == connSession {
			w.rec.Open++
		}
	}
	w.taken = host.Preempted()
	if w.stopped {
		w.cut()
		return
	}
	if !w.closedLoop() {
		w.advance()
		return
	}
	if w.fresh {
		return // the first look at the closed places opens them
	}
	for i := range w.pools {
		p := &w.pools[i]
		for range p.idle.Size {
			c, _ := p.idle.Pop()
			if c.current() {
				w.tick()
				w.release(c.conn)
			}
		}
	}
	w.flushAll()
}

// advance moves to the schedule's next request.
func (w *Worker) advance() {
	w.nextDue = w.schedule.Next()
	if w.nextDue >= w.end || w.stopped || w.rec.Intended >= w.quota {
		w.nextDue = load.Never
	}
}

// fire sends, or queues, every request that is due.
func (w *Worker) fire() {
	for w.nextDue <= w.now {
		intended := w.nextDue
		w.rec.Due(intended)
		p := &w.pools[w.job.Rotation[w.nextTurn]]
		if w.nextTurn++; w.nextTurn == len(w.job.Rotation) {
			w.nextTurn = 0
		}
		w.advance()
		if p.queue.Size == 0 {
			if c := p.take(); c != nil {
				w.rec.Gaps.Add(w.now, intended)
				w.begin(c, intended, intended)
				w.tick()
				continue
			}
		}
		w.rec.Gaps.Skip()
		if w.drops {
			w.rec.Drop(intended)
			continue
		}
		p.queue.Push(intended)
		w.rec.QueueMax = max(w.rec.QueueMax, int64(p.queue.Size))
	}
	w.flushAll()
}

// take returns the place for a request: the connection that has been free for
// longest, else one without a socket, else none. Turning through all of them
// spreads the load over the proxy's workers.
func (p *pool) take() *conn {
	for {
		c, ok := p.idle.Pop()
		if !ok {
			break
		}
		if c.current() && c.unlist() {
			return c.conn
		}
	}
	for {
		c, ok := p.closed.Pop()
		if !ok {
			return nil
		}
		if c.current() {
			return c.conn
		}
	}
}

// turn waits for events and handles them.
func (w *Worker) turn(wait time.Duration) {
	asleep := w.now
	n, errno := w.poll.wait(wait)
	w.tick()
	if n == 0 && wait > 0 {
		w.learnWake(w.now - asleep - int64(wait))
	}
	if n == 0 && wait <= 0 && w.rec.InWindow(w.now) {
		w.rec.Polled += time.Duration(w.now - asleep)
	}
	if errno != 0 {
		return // EINTR, by a signal: the loop looks again
	}
	for i := range n {
		e := &w.poll.events[i]
		switch e.Fd {
		case keyWake:
			w.attend()
			w.flushAll()
		case keyTimer: // edge-triggered: nothing to take back
		default:
			w.handle(w.at(e.Fd), e)
			w.flushAll()
		}
		if w.nextDue <= w.now {
			w.fire()
		}
	}
}

// handle acts on one connection's event.
func (w *Worker) handle(c *conn, e *unix.EpollEvent) {
	if c.generation != e.Pad {
		return
	}
	if e.Events&(unix.EPOLLRDHUP|unix.EPOLLHUP|unix.EPOLLERR) != 0 {
		c.peerEnded = true
	}
	readable := c.peerEnded || e.Events&unix.EPOLLIN != 0
	switch c.state {
	case connConnecting:
		if w.opened(c); readable && c.state != connConnecting {
			w.handle(c, e) // a server may speak first, and its event does not come again
		}
	case connShaking:
		w.shakeEvent(c, readable)
	case connGreeting, connSession:
		w.converse(c, e.Events&unix.EPOLLOUT != 0, readable)
	case connIdle:
		if readable {
			w.idleEvent(c)
		}
	case connBusy:
		if e.Events&unix.EPOLLOUT != 0 && c.unsent() {
			w.write(c)
		}
		switch {
		case c.state != connBusy || !readable:
		case c.carries:
			w.read(c)
		default:
			c.peerEnded = true // its request is on a detour, and nothing was to come
		}
	}
}
