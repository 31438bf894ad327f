package loadgen

import (
	"context"
	"fmt"
	"net/http"
	"net/netip"
	"time"
)

// nativeLane is worker i of the system's own engine.
func nativeLane(j *job, i int) (lane, error) {
	w, err := newWorker(j, i)
	if err != nil {
		return nil, err
	}
	return w, nil
}

// newWorker makes worker number of j; it must be closed.
func newWorker(j *job, number int) (*worker, error) {
	p := &j.profile
	poll, err := newPoller()
	if err != nil {
		return nil, fmt.Errorf("open poller: %w", err)
	}
	w := &worker{
		number: number, job: j, poll: poll,
		buffer: make([]byte, readBuffer), pools: make([]pool, len(j.targets)),
		drops: p.Overflow == overflowDrop, fresh: p.NoKeepAlive,
		resting: map[netip.AddrPort]int64{}, timeout: int64(p.Timeout), expect: newExpectation(p), spin: int64(j.spin),
		rec: j.collect.recorder(), zero: time.Now(), nextDue: never, nextRetry: never,
		laneClock: laneClock{nextTick: int64(time.Second), nextEdge: int64(p.Warmup)},
		end:       int64(p.Warmup + p.Measure + p.Tail), drain: int64(p.Drain), quota: j.quota(number),
	}
	w.lookups, w.endLookups = context.WithCancel(context.Background())
	w.route = route{profile: p, body: j.body}
	w.drainEnd = w.end + w.drain
	if p.Rate > 0 {
		w.schedule = j.schedule(number)
		w.wakeMost, w.replyRoom = wakeMost(p), replyRoom(p, j.spin)
	}
	for i := range w.pools {
		t := &j.targets[i]
		w.pools[i] = pool{target: t, turn: number, bodily: p.Method != http.MethodHead}
		if t.tls != nil && w.plain == nil {
			w.plain = make([]byte, plainBuffer)
		}
	}
	w.conns = make([]conn, share(p.Connections, p.Workers, number))
	seats := seatsOf(p, len(w.conns))
	for i := range w.conns {
		w.conns[i] = conn{parser: parser{content: w.expect.content(), echo: w.pools[seats[i]].target.echo, follow: p.Follow > 0}, index: int32(i), fd: -1, pool: &w.pools[seats[i]]}
		c := &w.conns[i]
		c.of = c
		if p.Follow == 0 { // a redirect's header says more than is remembered
			c.parser.last = &c.pool.header
		}
		if h2 := c.pool.target.h2; h2 != nil {
			c.session = newSession(h2, &w.expect, p.Streams, c.pool.bodily, p.Protocol == protocolGRPC)
			c.session.many = p.GRPCStream
			c.calls = make([]streamCall, c.session.size())
		}
	}
	return w, nil
}

func (w *worker) run(t0 time.Time) *totals {
	w.start(t0)
	w.load()
	return &w.rec.totals
}

func (w *worker) close() {
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
