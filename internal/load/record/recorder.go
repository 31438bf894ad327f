// Package record counts the outcomes of requests, and makes the interval log and the report of them.
package record

import (
	"crypto/tls"
	"io"
	"math"
	"net/netip"
	"sync"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"github.com/tare-mesh/tare/internal/load"
	"github.com/tare-mesh/tare/internal/load/host"
)

// The histograms' range in ns and their precision. Values beyond are clamped.
const (
	lowestNS  = int64(time.Microsecond)
	highestNS = int64(60 * time.Second)
	digits    = 3
)

// interval holds what became of the requests intended in one interval of the
// log. It is open until every one of them has ended.
type interval struct {
	index       int           // from t0
	from, to    time.Duration // likewise
	outstanding int
	closed      bool // the schedule has passed it
	response    [classCount]*hdrhistogram.Histogram
	service     [classCount]*hdrhistogram.Histogram
	lateness    *hdrhistogram.Histogram
	retried     *hdrhistogram.Histogram
}

// tick counts one worker's requests of one second, for the live line.
type tick struct {
	load.Progress
	latency *hdrhistogram.Histogram // of the answers that came in this second
}

// Recorder is one worker's memory: no other thread touches it while load runs.
// Finished intervals and ticks leave it through channels, once a second or so.
type Recorder struct {
	Window     [2]int64 // measure window, ns from t0
	log        intervals
	open       []*interval
	base       int // index of open[0]
	finished   chan<- *interval
	spare      <-chan *interval
	ticks      chan<- tick
	spareLive  <-chan *hdrhistogram.Histogram
	live       tick
	closedLoop bool
	wanted     *load.StatusSet // statuses of success
	first      load.Failure    // of a connection or of a request on one
	Totals
}

// Due counts a request that the schedule asks for at intended.
func (r *Recorder) Due(intended int64) {
	r.intervalAt(intended).outstanding++
	r.live.Intended++
	if r.InWindow(intended) {
		r.Intended++
		r.slices.due(intended)
	}
}

// Outcome of one request, whose instants are ns from t0.
type Outcome struct {
	Intended int64
	Sent     int64 // negative: no open connection got it
	Free     int64 // when a connection was free for it
	First    int64 // when the first byte of the answer came
	End      int64
	Status   int // 0: no answer
	Kind     load.Failure

	Retries  int32 // how often it was retried
	Path     int   // of the profile's paths
	Conn     int32 // its connection, of the worker's
	Version  int32 // of the answer, by [load.Versions]
	Messages int   // of gRPC, or of an answer that streams
	Message  int64 // when the first of them was whole
}

// Finish records one request's outcome. It keeps no reference to o.
func (r *Recorder) Finish(o *Outcome) {
	class := classOf(o.Kind)
	if class == classOK && !r.wanted[o.Status] {
		class = classStatus
	}
	response := o.End - o.Intended
	s := r.intervalAt(o.Intended)
	put(orNew(&s.response[class]), response)
	if o.Retries > 0 {
		put(orNew(&s.retried), response)
	}
	r.explain(o)
	window := r.InWindow(o.Intended)
	if o.Sent >= 0 {
		put(orNew(&s.service[class]), o.End-o.Sent)
		if !r.closedLoop {
			put(s.lateness, o.Sent-o.Intended)
		}
	}
	switch {
	case window:
		r.count(o, class, response)
	case o.Status == 0:
		r.lost[o.Kind]++
	}
	r.finishWhole(o)
	r.answers.finish(o, class == classOK)
	counted := r.InWindow(o.End)
	if r.slices.table != nil { // a slice has all of its requests, and the window leaves none over
		counted = window
	}
	if o.Intended < r.Window[0] && o.End >= r.Window[0] {
		r.backlog[0]++
	}
	if o.Intended < r.Window[1] && o.End >= r.Window[1] && r.slices.table == nil {
		r.backlog[1]++
	}
	if o.Status != 0 {
		r.live.Completed++
		if counted {
			r.completed++
		}
	}
	if class != classOK {
		r.live.Errors++
	}
	put(r.live.latency, response)
	if s.outstanding--; s.outstanding == 0 && s.closed {
		r.deliver(s)
	}
}

func (r *Recorder) count(o *Outcome, class classIndex, response int64) {
	r.slices.finish(o, class == classOK)
	r.classes[class]++
	r.kinds[o.Kind]++
	r.statuses[o.Status]++
	if class != classOK {
		if class == classStatus && (o.Kind == load.FailureNone || o.Kind == load.FailureWrongStatus) {
			r.unsuccessful[o.Status]++
		}
		put(orNew(&r.failed[failedIndex(class, o.Status)]), response)
	}
	if len(r.routes) > 0 {
		r.routes[o.Path].finish(o, class, response)
	}
	r.messages += int64(o.Messages)
	if o.Retries > 0 {
		r.retried++
	}
	if o.Sent >= 0 {
		r.sent++
		if !r.closedLoop {
			put(r.lateness, o.Sent-o.Intended)
			put(r.ownDelay, o.Sent-max(o.Intended, o.Free))
		}
	}
	if class == classOK {
		put(r.response, response)
		put(r.service, o.End-o.Sent)
		put(r.firstByte, o.First-o.Sent)
		if o.Messages > 0 {
			put(r.message, o.Message-o.Sent)
		}
	}
}

// Handshaken records a TLS handshake that took ns.
func (r *Recorder) Handshaken(s tls.ConnectionState, ns int64) {
	put(r.handshake, ns)
	if s.DidResume {
		r.resumed++
	}
	if r.TLS == "" {
		r.TLS = tls.VersionName(s.Version) + " " + tls.CipherSuiteName(s.CipherSuite)
	}
}

// Connected records a connect that ended at an instant and took ns. addr is invalid for a Unix socket.
func (r *Recorder) Connected(addr netip.AddrPort, at, ns int64) {
	if r.InWindow(at) {
		r.opened++
	}
	put(r.connect, ns)
	if addr.IsValid() {
		r.addresses[addr]++
	}
}

// RoundTrip records the time between a message on a stream and its answer, at an instant.
func (r *Recorder) RoundTrip(at, ns int64) {
	if r.InWindow(at) {
		put(r.roundTrip, ns)
	}
}

// MessageGap records the time between two messages of an answer, the latter of which came at an instant.
func (r *Recorder) MessageGap(at, ns int64) {
	if r.InWindow(at) {
		put(r.gap, ns)
	}
}

// put records ns, clamped to the histogram's range: a latency is never dropped.
func put(h *hdrhistogram.Histogram, ns int64) {
	// RecordValue fails only beyond the range, which the clamp rules out.
	_ = h.RecordValue(min(max(ns, 0), highestNS))
}

// InWindow reports whether an instant, ns from t0, lies in the measure window.
func (r *Recorder) InWindow(at int64) bool { return at >= r.Window[0] && at < r.Window[1] }

// intervalAt returns the interval an intended start belongs to.
func (r *Recorder) intervalAt(intended int64) *interval {
	i := r.log.index(intended)
	for i-r.base >= len(r.open) {
		r.open = append(r.open, nil)
	}
	s := r.open[i-r.base]
	if s == nil {
		select {
		case s = <-r.spare:
		default:
			s = newInterval()
		}
		s.index, s.closed, s.outstanding = i, false, 0
		s.from, s.to = r.log.bounds(intended)
		r.open[i-r.base] = s
	}
	return s
}

func newInterval() *interval {
	s := &interval{lateness: newHistogram()}
	s.response[classOK], s.service[classOK] = newHistogram(), newHistogram()
	return s
}

// Publish hands over what happened since the last tick and begins the next.
func (r *Recorder) Publish(index int) {
	r.live.Second = index
	r.ticks <- r.live
	r.live = tick{}
	select {
	case r.live.latency = <-r.spareLive:
	default:
		r.live.latency = newLive()
	}
}

// newLive is coarser than the log's histograms: it only feeds the live line.
func newLive() *hdrhistogram.Histogram { return hdrhistogram.New(lowestNS, highestNS, 2) }

// Flush hands over every interval that is still open, at the end of the run.
func (r *Recorder) Flush() { r.pass(math.MaxInt64) }

// pass closes every interval before now: no more requests will be intended in them.
func (r *Recorder) pass(now int64) {
	current := r.log.index(now)
	for i, s := range r.open {
		if r.base+i >= current {
			break
		}
		if s == nil || s.closed {
			continue
		}
		if s.closed = true; s.outstanding == 0 {
			r.deliver(s)
		}
	}
	passed := 0
	for passed < len(r.open) && r.base+passed < current && r.open[passed] == nil {
		passed++
	}
	r.open = append(r.open[:0], r.open[passed:]...)
	if r.base += passed; len(r.open) == 0 {
		r.base = max(r.base, current)
	}
}

// deliver hands a finished interval over, and its place becomes empty.
func (r *Recorder) deliver(s *interval) {
	r.open[s.index-r.base] = nil
	r.finished <- s
}

func orNew(h **hdrhistogram.Histogram) *hdrhistogram.Histogram {
	if *h == nil {
		*h = newHistogram()
	}
	return *h
}

func newHistogram() *hdrhistogram.Histogram { return hdrhistogram.New(lowestNS, highestNS, digits) }

// Ticker does a worker's work by the clock: the CPU readings at the edges of
// the measure window and the hand-over at the end of every second. Instants are
// ns from t0.
type Ticker struct {
	NextTick, NextEdge int64
	edgeAt             int64
	threadCPU          time.Duration // at the beginning of the window
}

// Advance does the work that is due at now.
func (c *Ticker) Advance(r *Recorder, now int64) {
	if now >= c.NextEdge {
		c.Edge(r, now)
	}
	for now >= c.NextTick {
		r.pass(now)
		r.Publish(int(c.NextTick/1e9) - 1)
		c.NextTick += 1e9
	}
}

func (c *Ticker) Edge(r *Recorder, now int64) {
	thread, process := host.ThreadCPU(), host.ProcessCPU()
	if c.NextEdge == r.Window[0] {
		c.threadCPU, c.edgeAt, c.NextEdge = thread, now, r.Window[1]
		r.process[0] = process
		if now < c.NextEdge {
			return
		}
	}
	r.ThreadCPU, r.wall = thread-c.threadCPU, time.Duration(now-c.edgeAt)
	r.covered = max(0, time.Duration(min(now, r.Window[1])-r.Window[0]))
	r.process[1] = process
	c.NextEdge = load.Never
}

// Collector merges the workers' data once a second. It is the only other goroutine
// that is active while load runs.
type Collector struct {
	profile  *load.Profile
	progress func(load.Progress)
	workers  int

	in        chan *interval
	spare     chan *interval
	ticks     chan tick
	spareLive chan *hdrhistogram.Histogram
	done      chan struct{}
	idle      sync.WaitGroup

	log     map[time.Duration]*logInterval // by their beginning
	pending map[int]*pendingTick
	next    int // the second to be reported next
}

// pendingTick waits for the other workers' share of the same second.
type pendingTick struct {
	tick
	seen int
}

func NewCollector(p *load.Profile, progress func(load.Progress)) *Collector {
	if progress == nil {
		progress = func(load.Progress) {}
	}
	return &Collector{
		profile: p, progress: progress,
		// Room for some seconds of every worker: a worker never waits for the collector.
		in: make(chan *interval, 64*p.Workers), spare: make(chan *interval, 64*p.Workers),
		ticks: make(chan tick, 64*p.Workers), spareLive: make(chan *hdrhistogram.Histogram, 64*p.Workers),
		done: make(chan struct{}),
		log:  map[time.Duration]*logInterval{}, pending: map[int]*pendingTick{},
	}
}

func (c *Collector) Recorder() Recorder {
	from := int64(c.profile.Warmup)
	t := newTotals()
	paths, _ := c.profile.Paths()
	t.routes = make([]routeTotal, len(paths))
	t.slices = newSliceCounts(c.profile.Slices)
	if c.profile.AnswersPath != "" {
		t.Versions = load.NewVersions()
	}
	return Recorder{
		Window:   [2]int64{from, from + int64(c.profile.Measure)},
		log:      intervalsOf(c.profile.Warmup, c.profile.Measure),
		finished: c.in, spare: c.spare, ticks: c.ticks, spareLive: c.spareLive,
		live:       tick{latency: newLive()},
		closedLoop: c.profile.Rate == 0, wanted: c.profile.Success(),
		Totals: t,
	}
}

// Start starts to collect from a number of workers.
func (c *Collector) Start(workers int) {
	c.workers = workers
	c.idle.Go(func() {
		for {
			select {
			case s := <-c.in:
				c.merge(s)
			case t := <-c.ticks:
				c.tick(t)
			case <-c.done:
				c.drain()
				return
			}
		}
	})
}

// Finish collects the rest, once every worker has returned.
func (c *Collector) Finish() {
	close(c.done)
	c.idle.Wait()
}

func (c *Collector) drain() {
	for {
		select {
		case s := <-c.in:
			c.merge(s)
		case t := <-c.ticks:
			c.tick(t)
		default:
			return
		}
	}
}

func (c *Collector) merge(s *interval) {
	sum := c.log[s.from]
	if sum == nil {
		sum = &logInterval{to: s.to}
		c.log[s.from] = sum
	}
	sum.merge(s)
	s.reset()
	select {
	case c.spare <- s:
	default:
	}
}

func (c *Collector) tick(t tick) {
	p := c.pending[t.Second]
	if p == nil {
		p = &pendingTick{tick: tick{Progress: load.Progress{Second: t.Second, Phase: phaseOf(c.profile, t.Second)}, latency: newLive()}}
		c.pending[t.Second] = p
	}
	p.seen++
	p.Intended += t.Intended
	p.Completed += t.Completed
	p.Errors += t.Errors
	p.latency.Merge(t.latency)
	t.latency.Reset()
	select {
	case c.spareLive <- t.latency:
	default:
	}
	for c.pending[c.next] != nil && c.pending[c.next].seen >= c.workers {
		done := &c.pending[c.next].tick
		done.P50MS, done.P99MS = float64(done.latency.ValueAtPercentile(50))/1e6, float64(done.latency.ValueAtPercentile(99))/1e6
		c.progress(done.Progress)
		delete(c.pending, c.next)
		c.next++
	}
}

// phaseOf returns the phase at the beginning of a second.
func phaseOf(p *load.Profile, second int) string {
	at := time.Duration(second) * time.Second
	switch {
	case at < p.Warmup:
		return "warm-up"
	case at < p.Warmup+p.Measure:
		return "measure"
	}
	return "tail"
}

func (s *interval) reset() {
	for c := range classCount {
		for _, h := range []*hdrhistogram.Histogram{s.response[c], s.service[c]} {
			if h != nil && h.TotalCount() > 0 {
				h.Reset()
			}
		}
	}
	s.lateness.Reset()
	if s.retried != nil {
		s.retried.Reset()
	}
}

// WriteLog writes the interval log, whose times count from t0.
func (c *Collector) WriteLog(w io.Writer, t0 time.Time) error { return writeLog(w, t0, c.log) }
