package epoll

import (
	"math/rand/v2"

	"github.com/tare-mesh/tare/internal/load"
)

// thinker lets each connection of a closed loop wait between an answer and its next request.
type thinker struct {
	w       *Worker
	on      bool
	least   int64 // ns
	most    int64
	rng     *rand.Rand
	next    int64     // when the first wait is over, ns from t0, load.Never for none
	waiting []thought // a heap by their ends
}

// thought is the wait of a connection.
type thought struct {
	end int64
	place
}

func newThinker(w *Worker) thinker {
	p := &w.job.Profile
	t := thinker{w: w, next: load.Never}
	if p.Think != nil {
		t.on, t.least, t.most = true, int64(p.Think.Min), int64(p.Think.Max)
		t.rng = rand.New(rand.NewPCG(p.Seed, uint64(w.job.Number(w.number, 0))))
	}
	return t
}

// begin spreads the first requests of the connections, which else would all be sent at once.
func (t *thinker) begin() {
	if !t.on {
		return
	}
	for i := range t.w.places.conns {
		t.w.places.conns[i].ready = t.w.now + t.rng.Int64N(t.most)
	}
}

// answered draws the wait of c after an answer.
func (t *thinker) answered(c *conn) {
	if t.on {
		c.ready = t.w.now + t.least + t.rng.Int64N(t.most-t.least+1)
	}
}

// pause reports whether c must wait before its next request, and has it sent then.
func (t *thinker) pause(c *conn) bool {
	if !t.on || c.ready <= t.w.now {
		return false
	}
	t.push(thought{c.ready, c.place()})
	return true
}

// wake sends the requests of connections whose wait is over.
func (t *thinker) wake() {
	for len(t.waiting) > 0 && t.waiting[0].end <= t.w.now {
		at := t.pop()
		switch c := at.conn; {
		case !at.current() || c.ready != at.end: // opened again since, or answered
		case c.state == connSession:
			t.w.streams.fill(c)
		case c.state == connIdle:
			t.w.places.release(c)
		case c.state == connClosed && t.w.places.fresh:
			t.w.places.refill(c)
		}
	}
	t.w.streams.flushAll()
}

func (t *thinker) push(n thought) {
	t.waiting = append(t.waiting, n)
	for i := len(t.waiting) - 1; i > 0; {
		parent := (i - 1) / 2
		if t.waiting[parent].end <= t.waiting[i].end {
			break
		}
		t.waiting[parent], t.waiting[i] = t.waiting[i], t.waiting[parent]
		i = parent
	}
	t.next = t.waiting[0].end
}

func (t *thinker) pop() thought {
	first, last := t.waiting[0], len(t.waiting)-1
	t.waiting[0], t.waiting[last] = t.waiting[last], thought{}
	t.waiting = t.waiting[:last]
	for i := 0; ; {
		least := i
		for _, child := range []int{2*i + 1, 2*i + 2} {
			if child < last && t.waiting[child].end < t.waiting[least].end {
				least = child
			}
		}
		if least == i {
			break
		}
		t.waiting[i], t.waiting[least] = t.waiting[least], t.waiting[i]
		i = least
	}
	t.next = load.Never
	if last > 0 {
		t.next = t.waiting[0].end
	}
	return first
}
