package epoll

import (
	"fmt"
	"math"
	"net/netip"
	"time"

	"golang.org/x/sys/unix"

	"github.com/tare-mesh/tare/internal/load"
	"github.com/tare-mesh/tare/internal/load/check"
	"github.com/tare-mesh/tare/internal/load/host"
	"github.com/tare-mesh/tare/internal/load/http1"
	"github.com/tare-mesh/tare/internal/load/job"
	"github.com/tare-mesh/tare/internal/load/record"
	"github.com/tare-mesh/tare/internal/load/schedule"
)

// NewWorker makes worker number of j. The worker must be closed.
func NewWorker(j *job.Job, number int) (*Worker, error) {
	p := &j.Profile
	poll, err := newPoller()
	if err != nil {
		return nil, fmt.Errorf("open poller: %w", err)
	}
	w := &Worker{
		job: j, poll: poll, inbox: inbox{poll: poll}, timeout: int64(p.Timeout),
		io: buffers{raw: make([]byte, readBuffer)}, rec: j.Collector.Recorder(),
		clock: clock{zero: time.Now()}, ticker: record.Ticker{NextTick: int64(time.Second), NextEdge: int64(p.Warmup)},
		pace: newPacer(j, number), sleep: newSleeper(p, j.Spin),
	}
	w.connector = connector{w: w, avoided: map[netip.AddrPort]int64{}}
	w.places = places{w: w, pools: make([]pool, len(j.Origins)), fresh: p.NoKeepAlive, perCall: p.ConnectionShare(), nextRetry: load.Never}
	w.exchanges = exchanger{w: w, expect: check.New(p)}
	w.streams, w.messages, w.openings, w.resends = multiplexer{w: w}, messenger{w: w}, opener{w: w}, resender{w: w}
	w.holds.w = w
	for i := range w.places.pools {
		o := &j.Origins[i]
		pl := &w.places.pools[i]
		*pl = pool{target: o.Targets[0], turn: number, cursor: job.Cursor{Origin: o}, requests: make([]request, len(o.Targets))}
		for k, t := range o.Targets {
			pl.requests[k].target = t
		}
		if pl.target.TLS != nil && w.io.plain == nil {
			w.io.plain = make([]byte, plainBuffer)
		}
	}
	w.places.conns = make([]conn, schedule.Share(p.Connections, p.Workers, number))
	assigned := j.Assign(len(w.places.conns))
	for i := range w.places.conns {
		pl := &w.places.pools[assigned[i]]
		w.places.conns[i] = conn{index: int32(i), socket: socket{fd: -1}, pool: pl,
			parser: http1.Parser{Content: w.exchanges.expect.NewContent(), Echo: pl.target.Echo, Until: pl.target.Until, Unlike: pl.target.Unlike, Versions: w.rec.Versions, Chunks: p.Stream == load.StreamChunks}}
		c := &w.places.conns[i]
		c.of = c
		c.spent = float64(i) / float64(len(w.places.conns)) // so that they are not replaced at once
		w.streams.addSession(c)
		w.messages.addWebSocket(c)
	}
	return w, nil
}

// Run carries out the worker's share of the load from t0 and returns its counts.
func (w *Worker) Run(t0 time.Time) *record.Totals {
	w.start(t0)
	w.load()
	return &w.rec.Totals
}

// Stop ends sending. Any goroutine may call it.
func (w *Worker) Stop() { w.inbox.postStop() }

// Close frees what the worker holds, once Run has returned.
func (w *Worker) Close() {
	for i := range w.places.conns {
		w.places.drop(&w.places.conns[i])
	}
	for _, d := range w.places.extra {
		w.places.drop(d)
	}
	w.connector.background.Wait() // they wake the poller
	w.poll.close()
}

// readBuffer is the size in bytes of the buffer that a worker's connections share.
const readBuffer = 256 << 10

// clock is a worker's: read once for all that it does next.
type clock struct {
	zero time.Time // t0 or, before the start, the worker's creation
	now  int64     // ns from zero
}

// Worker is one OS thread of the engine: its own poller, connections, share of
// the schedule and histograms. Nothing of it is shared while load runs.
type Worker struct {
	job      *job.Job
	poll     *poller
	inbox    inbox
	io       buffers
	rec      record.Recorder
	timeout  int64 // ns
	nextTurn int   // of the job's rotation
	inFlight int   // requests under way

	clock
	ticker    record.Ticker
	pace      pacer
	sleep     sleeper
	deadlines deadlines

	// The parts below call one another through the worker.
	connector connector
	places    places
	exchanges exchanger
	streams   multiplexer
	messages  messenger
	openings  opener
	resends   resender
	holds     holder
	unread    job.Queue[place] // connections that had more to read than one turn may take
}

// start moves the worker's clock to t0.
func (w *Worker) start(t0 time.Time) {
	shift := int64(t0.Sub(w.zero))
	w.zero = t0
	w.deadlines.shift(shift)
	for i := range w.places.conns {
		w.places.conns[i].retryAt -= shift
	}
	for addr := range w.connector.avoided {
		w.connector.avoided[addr] -= shift
	}
	w.tick()
	w.places.nextRetry = w.now
}

func (w *Worker) load() {
	w.waitForStart()
	w.firstRequests()
	for {
		w.tick()
		w.fire()
		w.expire()
		w.housekeep()
		if w.finished() {
			break
		}
		w.turn(w.pause())
	}
	w.abandon()
}

// waitForStart handles events, such as servers that close connections, until t0.
func (w *Worker) waitForStart() {
	for w.tick(); w.now < 0 && !w.pace.stopped; w.tick() {
		w.turn(time.Duration(-w.now))
	}
}

// firstRequests makes the first requests due.
func (w *Worker) firstRequests() {
	w.pace.started = true
	w.rec.Open = w.places.held()
	w.sleep.taken = host.Preempted()
	if w.pace.stopped {
		w.endWindow()
		return
	}
	if !w.pace.closedLoop() {
		w.pace.advance(w.rec.Intended)
		return
	}
	if w.places.fresh {
		return // the first retry opens the closed places
	}
	for i := range w.places.pools {
		p := &w.places.pools[i]
		for range p.idle.Size {
			c, _ := p.idle.Pop()
			if c.current() {
				w.tick()
				w.places.release(c.conn)
			}
		}
	}
	w.streams.flushAll()
}

// deadline returns the end of what c begins now. A request that has its connection opened,
// or is retried, has one timeout in all.
func (w *Worker) deadline(c *conn) int64 {
	if c.carries {
		return c.sent + w.timeout
	}
	return w.now + w.timeout
}

func (w *Worker) turn(wait time.Duration) {
	asleep := w.now
	n, errno := w.poll.wait(wait)
	w.tick()
	if n == 0 && wait > 0 {
		w.sleep.woke(w.now - asleep - int64(wait))
	}
	if n == 0 && wait <= 0 && w.rec.InWindow(w.now) {
		w.rec.Polled += time.Duration(w.now - asleep)
	}
	if errno != 0 {
		return // EINTR, by a signal: the loop looks again
	}
	if w.unread.Size > 0 {
		w.readMore()
	}
	for i := range n {
		e := &w.poll.events[i]
		switch e.Fd {
		case keyWake:
			w.wokenUp()
			w.streams.flushAll()
		case keyTimer: // edge-triggered: nothing to take back
		default:
			w.handle(w.places.byIndex(e.Fd), e)
			w.streams.flushAll()
		}
		if w.pace.nextDue <= w.now {
			w.fire()
		}
	}
}

// fire sends, or queues, every request that is due.
func (w *Worker) fire() {
	for w.pace.nextDue <= w.now {
		intended := w.pace.nextDue
		w.rec.Due(intended)
		p := &w.places.pools[w.job.Rotation[w.nextTurn]]
		if w.nextTurn++; w.nextTurn == len(w.job.Rotation) {
			w.nextTurn = 0
		}
		w.pace.advance(w.rec.Intended)
		if p.waiting() == 0 {
			if c := p.nextPlace(); c != nil {
				w.rec.Gaps.Add(w.now, intended)
				w.begin(c, intended, intended)
				w.tick()
				continue
			}
		}
		w.rec.Gaps.Skip()
		p.queue.Push(intended)
		w.rec.QueueMax = max(w.rec.QueueMax, int64(p.queue.Size))
	}
	w.streams.flushAll()
}

// begin attaches a request to c and sends it, or opens the connection for it.
func (w *Worker) begin(c *conn, intended, free int64) {
	if c.state == connSession {
		w.streams.beginStream(c, intended, free)
		w.streams.offer(c)
		return
	}
	// Where a connection must be opened first, that is part of the service.
	c.carries, c.call = true, call{intended: intended, free: free, sent: w.now, what: c.pool.next()}
	if w.pace.closedLoop() {
		w.rec.Due(intended)
	}
	w.inFlight++
	w.sleep.lastSend = w.now
	if c.state == connClosed {
		w.connector.open(c)
		return
	}
	c.state = connBusy
	w.exchanges.send(c)
}

func (c *clock) tick() { c.now = int64(time.Since(c.zero)) }

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
		if w.connector.opened(c); readable && c.state != connConnecting {
			w.handle(c, e) // a server may speak first, and its event does not come again
		}
	case connHandshake:
		w.connector.handshakeEvent(c, readable)
	case connSettings, connSession:
		w.streams.sessionEvent(c, e.Events&unix.EPOLLOUT != 0, readable)
	case connUpgrade:
		w.messages.event(c, e.Events&unix.EPOLLOUT != 0, readable)
	case connOpening:
		w.openings.event(c, e.Events&unix.EPOLLOUT != 0, readable)
	case connIdle:
		if c.messages != nil {
			w.messages.event(c, e.Events&unix.EPOLLOUT != 0, readable)
		} else if readable {
			w.places.idleEvent(c)
		}
	case connBusy:
		if c.messages != nil {
			w.messages.event(c, e.Events&unix.EPOLLOUT != 0, readable)
			return
		}
		if e.Events&unix.EPOLLOUT != 0 && c.isWriting() {
			w.exchanges.write(c)
		}
		if c.state == connBusy && readable {
			w.exchanges.read(c)
		}
	}
}

// expire gives up every request and connect whose time is over.
func (w *Worker) expire() {
	for w.deadlines.first != nil && w.deadlines.first.deadline <= w.now {
		c := w.deadlines.first.of
		switch {
		case w.deadlines.first.stream != nil:
			w.streams.cancel(c, w.deadlines.first.stream)
		case c.state == connConnecting || c.state == connHandshake || c.state == connSettings || c.state == connUpgrade || c.state == connOpening:
			w.connector.expired(c)
		default:
			w.exchanges.fail(c, load.FailureTimeout)
		}
	}
	if w.resends.waiting > 0 {
		w.resends.expire()
	}
	w.streams.flushAll()
}

// housekeep does the work that is due now, apart from requests.
func (w *Worker) housekeep() {
	if w.now >= w.places.nextRetry {
		w.places.retry()
	}
	if w.now >= w.holds.next() {
		w.holds.release()
	}
	tick, edge := w.ticker.NextTick, w.ticker.NextEdge
	if w.ticker.Advance(&w.rec, w.now); w.ticker.NextTick != tick {
		w.sleep.adaptSpin()
	}
	if edge != load.Never && w.ticker.NextEdge == load.Never {
		w.rec.Held = w.places.held()
	}
}

// pause is how long the worker may sleep, less the spin window before a send.
func (w *Worker) pause() time.Duration {
	if w.unread.Size > 0 {
		return 0
	}
	if w.inFlight > 0 && w.sleep.polls(w.now) {
		return 0
	}
	next := min(w.ticker.NextTick, w.ticker.NextEdge, w.places.nextRetry, w.holds.next())
	if w.deadlines.first != nil {
		next = min(next, w.deadlines.first.deadline)
	}
	if w.resends.waiting > 0 {
		next = min(next, w.resends.deadline())
	}
	if w.sending() {
		next = min(next, w.pace.sendEnd)
	} else {
		next = min(next, w.pace.drainEnd)
	}
	if w.pace.nextDue != load.Never {
		next = min(next, w.pace.nextDue-w.sleep.early())
	}
	return time.Duration(max(0, next-w.now))
}

// sending reports whether requests may still be intended.
func (w *Worker) sending() bool { return w.pace.sending(w.now, w.rec.Intended) }

// maxReads bounds the reads of one connection in a turn of the worker's loop. A server that
// sends without end must not keep others' answers and deadlines waiting.
const maxReads = 8

// readLater has the rest that has arrived on c read in the next turn.
func (w *Worker) readLater(c *conn) {
	if c.secure != nil {
		c.secure.keep()
	}
	w.unread.Push(c.place())
}

// readMore goes on reading where the last turn broke off.
func (w *Worker) readMore() {
	for range w.unread.Size {
		at, _ := w.unread.Pop()
		switch c := at.conn; {
		case !at.current():
		case c.state == connSettings, c.state == connSession:
			w.streams.readAll(c)
		case c.messages != nil:
			w.messages.read(c)
		case c.state == connBusy && c.carries:
			w.exchanges.read(c)
		}
	}
	w.streams.flushAll()
}

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

// pacer decides when requests are due and until when they are. Instants are ns from t0.
type pacer struct {
	schedule schedule.Schedule // nil: closed loop
	nextDue  int64             // load.Never: the schedule is over
	sendEnd  int64             // no request is intended at or after it
	quota    int64             // requests to be sent in the measure window
	drain    int64             // how long to wait for answers, ns
	drainEnd int64             // when waiting for answers ends
	started  bool
	stopped  bool // by Stop
}

func newPacer(j *job.Job, number int) pacer {
	p := &j.Profile
	s := pacer{nextDue: load.Never, sendEnd: int64(p.Warmup + p.Measure + p.Tail), quota: j.Quota(number), drain: int64(p.Drain)}
	s.drainEnd = s.sendEnd + s.drain
	if p.Rate > 0 {
		s.schedule = j.Schedule(number)
	}
	return s
}

func (p *pacer) closedLoop() bool { return p.schedule == nil }

// sending reports whether requests may still be intended, after intended of them.
func (p *pacer) sending(now, intended int64) bool {
	return !p.stopped && (!p.started || now < p.sendEnd && intended < p.quota)
}

// advance moves to the schedule's next request, after intended of them.
func (p *pacer) advance(intended int64) {
	p.nextDue = p.schedule.Next()
	if p.nextDue == load.Never && p.quota < math.MaxInt64 {
		p.quota = intended // the schedule has fewer: the time of such a load is hours
	}
	if p.nextDue >= p.sendEnd || p.stopped || intended >= p.quota {
		p.nextDue = load.Never
	}
}

func (p *pacer) end(now int64) {
	p.nextDue = load.Never
	p.drainEnd = min(p.drainEnd, now+p.drain)
}

// finished reports whether nothing more will be sent and no answer is awaited.
func (w *Worker) finished() bool {
	if w.sending() {
		return false
	}
	if w.rec.Intended >= w.pace.quota && w.now < w.pace.sendEnd && !w.pace.stopped {
		return w.quotaReached()
	}
	if w.now >= w.pace.drainEnd {
		return true
	}
	return w.waiting() == 0 && w.now >= w.lastEdge()
}

// quotaReached reports whether all of a given number of requests have ended, and ends the
// measure window then.
func (w *Worker) quotaReached() bool {
	if w.waiting() > 0 {
		return false
	}
	w.endWindow()
	return true
}

// waiting counts the requests that are due or under way.
func (w *Worker) waiting() int { return w.inFlight + w.places.queued() }

// lastEdge is when the worker may stop looking at the clock: an idle worker must
// still read its CPU time at the end of the window.
func (w *Worker) lastEdge() int64 {
	if w.ticker.NextEdge == load.Never {
		return w.now
	}
	return w.rec.Window[1]
}

// abandon ends the requests in flight at the end of the drain, as timeouts.
func (w *Worker) abandon() {
	w.tick()
	w.rec.Unfinished = int64(w.inFlight)
	if w.ticker.NextEdge != load.Never {
		w.ticker.Edge(&w.rec, w.now)
		w.rec.Held = w.places.held()
	}
	for i := range w.places.conns {
		c := &w.places.conns[i]
		if c.carries {
			w.exchanges.finish(c, load.FailureTimeout, 0)
		}
		if c.session != nil {
			w.streams.endStreams(c, load.FailureTimeout)
		}
		w.places.drop(c)
	}
	for _, d := range w.places.extra {
		if d.session != nil {
			w.streams.endStreams(d, load.FailureTimeout)
		}
		w.places.drop(d)
	}
	for i := range w.places.pools {
		for q := &w.places.pools[i].queue; q.Size > 0; {
			intended, _ := q.Pop()
			what := w.places.pools[i].next()
			w.rec.Unfinished++
			w.rec.Finish(&record.Outcome{Intended: intended, Sent: -1, End: w.now, Kind: load.FailureNotSent, Path: what.target.Path})
		}
		for q := &w.places.pools[i].again; q.Size > 0; {
			r, _ := q.Pop()
			w.rec.Unfinished++
			w.giveUp(r, load.FailureTimeout)
		}
	}
	w.rec.Publish(int(w.now / 1e9))
	w.rec.Flush()
	w.rec.Spin = time.Duration(w.sleep.spin)
}

// wokenUp is called when another thread has woken the worker: it has posted
// something, or the worker is to stop sending and end the measure window here, if it
// is not yet over.
func (w *Worker) wokenUp() {
	var count [8]byte
	_, _ = unix.Read(w.poll.wakefd, count[:])
	if stop := w.inbox.collect(); !stop || w.pace.stopped {
		return
	}
	w.tick()
	w.firePast()
	w.pace.stopped = true
	if w.pace.started {
		w.endWindow()
	}
}

// firePast fires the requests of the measure window, if that is over: a worker that stalled until the stop has not
// sent them yet.
func (w *Worker) firePast() {
	if end := w.rec.Window[1]; w.pace.started && w.now >= end && w.pace.nextDue < end {
		w.pace.sendEnd = min(w.pace.sendEnd, end)
		w.fire()
	}
}

// endWindow ends the schedule and the measure window now.
func (w *Worker) endWindow() {
	w.pace.end(w.now)
	for i := range w.rec.Window {
		w.rec.Window[i] = min(w.rec.Window[i], max(w.now, 0))
	}
	w.ticker.NextEdge = min(w.ticker.NextEdge, w.rec.Window[1])
}
