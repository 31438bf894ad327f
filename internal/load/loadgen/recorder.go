package loadgen

import (
	"crypto/tls"
	"math"
	"net/netip"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// The histograms' range in ns and their precision; values beyond are clamped.
const (
	lowestNS  = int64(time.Microsecond)
	highestNS = int64(60 * time.Second)
	digits    = 3
)

func newHistogram() *hdrhistogram.Histogram { return hdrhistogram.New(lowestNS, highestNS, digits) }

// put records ns, clamped to the histogram's range: a latency is never dropped.
func put(h *hdrhistogram.Histogram, ns int64) {
	// RecordValue fails only beyond the range, which the clamp rules out.
	_ = h.RecordValue(min(max(ns, 0), highestNS))
}

// second holds what became of the requests intended in one second of the
// schedule. It is open until every one of them has ended.
type second struct {
	index       int // from t0
	outstanding int
	closed      bool // the schedule has passed it
	response    [classCount]*hdrhistogram.Histogram
	service     [classCount]*hdrhistogram.Histogram
	lateness    *hdrhistogram.Histogram
}

// tick is what one worker did within one second of time, for the live line.
type tick struct {
	index     int
	intended  int64
	completed int64
	errors    int64
	latency   *hdrhistogram.Histogram // of the answers that came in this second
}

// totals counts the requests intended in the measure window, unless stated otherwise.
type totals struct {
	intended, sent     int64
	completed          int64 // answers whose last byte came in the window
	bytesIn, bytesOut  int64 // in the window
	classes            [classCount]int64
	statuses           [statuses]int64
	kinds              [kinds]int64
	response, service  *hdrhistogram.Histogram  // 2xx
	lateness, ownDelay *hdrhistogram.Histogram  // every class
	firstByte          *hdrhistogram.Histogram  // 2xx, from the actual send
	message            *hdrhistogram.Histogram  // gRPC 2xx, from the actual send to the first message
	connect, handshake *hdrhistogram.Histogram  // of the whole run, prewarm included
	lookup             *hdrhistogram.Histogram  // likewise
	addresses          map[netip.AddrPort]int64 // connections opened, of the whole run
	dropped            int64
	messages           int64
	redirects          int64 // followed
	gaps               gaps
	routes             []routeTotal // 2xx, by the profile's paths; empty where there is one
	resumed            int64        // handshakes that resumed a session, of the whole run
	secured            string       // version and cipher suite of the first connection
	connected          int64        // at t0
	openKinds          [kinds]int64 // of connects that failed, of the whole run
	queueMax           int64
	reconnects         int64 // after t0
	idleClosed         int64
	unfinished         int64         // given up at the end of the drain, of the whole run
	threadCPU          time.Duration // of the worker in the window
	polled             time.Duration // of the window, in polls that found nothing
	processCPU         time.Duration // of the process in the window; worker 0 only
	wall               time.Duration // between the worker's readings of its CPU at the edges of the window
	covered            time.Duration // of the window, until it was over or the worker was told to stop
	spin               time.Duration // in use at the end
}

// recorder is one worker's memory: no other thread touches it while load runs.
// Finished seconds and ticks leave it through channels, once a second each.
type recorder struct {
	window     [2]int64 // measure window, ns from t0
	open       []*second
	base       int // index of open[0]
	seconds    chan<- *second
	spare      <-chan *second
	ticks      chan<- tick
	spareLive  <-chan *hdrhistogram.Histogram
	live       tick
	closedLoop bool
	wanted     *statusSet // statuses of success
	totals
}

func newTotals() totals {
	h := newHistogram
	return totals{response: h(), service: h(), lateness: h(), ownDelay: h(), firstByte: h(), message: h(), connect: h(), handshake: h(), lookup: h(), addresses: map[netip.AddrPort]int64{}, gaps: newGaps()}
}

// newLive is coarser than the log's histograms: it only feeds the live line.
func newLive() *hdrhistogram.Histogram { return hdrhistogram.New(lowestNS, highestNS, 2) }

func newSecond() *second {
	s := &second{lateness: newHistogram()}
	s.response[classOK], s.service[classOK] = newHistogram(), newHistogram()
	return s
}

// in says whether an instant, ns from t0, lies in the measure window.
func (r *recorder) in(at int64) bool { return at >= r.window[0] && at < r.window[1] }

// at returns the second an intended start belongs to.
func (r *recorder) at(intended int64) *second {
	i := int(intended / 1e9)
	for i-r.base >= len(r.open) {
		r.open = append(r.open, nil)
	}
	s := r.open[i-r.base]
	if s == nil {
		select {
		case s = <-r.spare:
		default:
			s = newSecond()
		}
		s.index, s.closed, s.outstanding = i, false, 0
		r.open[i-r.base] = s
	}
	return s
}

// due counts a request that the schedule asks for at intended.
func (r *recorder) due(intended int64) {
	r.at(intended).outstanding++
	r.live.intended++
	if r.in(intended) {
		r.intended++
	}
}

// outcome of one request; instants are ns from t0.
type outcome struct {
	intended int64
	sent     int64 // negative: never sent
	free     int64 // when a connection was free for it
	first    int64 // when the first byte of the answer came
	end      int64
	status   int // 0: no answer
	kind     kind

	hops     int   // redirects followed
	path     int   // of the profile's paths
	messages int   // of gRPC
	message  int64 // when the first of them was whole
}

// finish records one request's outcome.
func (r *recorder) finish(o outcome) {
	class := classOf(o.kind)
	if class == classOK && !r.wanted[o.status] {
		class = classStatus
	}
	response := o.end - o.intended
	s := r.at(o.intended)
	put(orNew(&s.response[class]), response)
	window := r.in(o.intended)
	if o.sent >= 0 {
		put(orNew(&s.service[class]), o.end-o.sent)
		if !r.closedLoop {
			put(s.lateness, o.sent-o.intended)
		}
	}
	if window {
		r.count(&o, class, response)
	}
	if o.status != 0 {
		r.live.completed++
		if r.in(o.end) {
			r.completed++
		}
	}
	if class != classOK {
		r.live.errors++
	}
	put(r.live.latency, response)
	if s.outstanding--; s.outstanding == 0 && s.closed {
		r.deliver(s)
	}
}

func (r *recorder) count(o *outcome, class classIndex, response int64) {
	r.classes[class]++
	r.kinds[o.kind]++
	r.statuses[o.status]++
	r.messages += int64(o.messages)
	r.redirects += int64(o.hops)
	if o.sent >= 0 {
		r.sent++
		if !r.closedLoop {
			put(r.lateness, o.sent-o.intended)
			put(r.ownDelay, o.sent-max(o.intended, o.free))
		}
	}
	if class == classOK {
		put(r.response, response)
		put(r.service, o.end-o.sent)
		put(r.firstByte, o.first-o.sent)
		if len(r.routes) > 0 {
			r.routes[o.path].n++
			r.routes[o.path].sum += o.end - o.sent
		}
		if o.messages > 0 {
			put(r.message, o.message-o.sent)
		}
	}
}

// shook records a TLS handshake that took ns.
func (r *recorder) shook(s tls.ConnectionState, ns int64) {
	put(r.handshake, ns)
	if s.DidResume {
		r.resumed++
	}
	if r.secured == "" {
		r.secured = tls.VersionName(s.Version) + " " + tls.CipherSuiteName(s.CipherSuite)
	}
}

// reached records a connect that took ns. addr is invalid for a Unix socket.
func (r *recorder) reached(addr netip.AddrPort, ns int64) {
	put(r.connect, ns)
	if addr.IsValid() {
		r.addresses[addr]++
	}
}

// resolved records a name look-up that took ns.
func (r *recorder) resolved(ns int64) { put(r.lookup, ns) }

// drop counts a request that was due and is not sent, by the profile's wish.
func (r *recorder) drop(intended int64) {
	if r.in(intended) {
		r.dropped++
	}
	s := r.at(intended)
	if s.outstanding--; s.outstanding == 0 && s.closed {
		r.deliver(s)
	}
}

// pass closes every second before now: no more requests will be intended in them.
func (r *recorder) pass(now int64) {
	current := int(now / 1e9)
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

// deliver hands a finished second over; its place becomes empty.
func (r *recorder) deliver(s *second) {
	r.open[s.index-r.base] = nil
	r.seconds <- s
}

// publish hands over what happened since the last tick and begins the next.
func (r *recorder) publish(index int) {
	r.live.index = index
	r.ticks <- r.live
	r.live = tick{}
	select {
	case r.live.latency = <-r.spareLive:
	default:
		r.live.latency = newLive()
	}
}

// flush hands over every second that is still open, at the end of the run.
func (r *recorder) flush() { r.pass(math.MaxInt64) }

func orNew(h **hdrhistogram.Histogram) *hdrhistogram.Histogram {
	if *h == nil {
		*h = newHistogram()
	}
	return *h
}
