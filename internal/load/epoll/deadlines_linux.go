package epoll

import (
	"github.com/tare-mesh/tare/internal/load/http2"
)

// awaited is an event with a deadline: the answer on a connection or on
// one of its streams, or the connection itself.
type awaited struct {
	of             *conn
	stream         *http2.Stream // nil: the connection
	deadline       int64
	waiting        bool // in the worker's list
	earlier, later *awaited
}

// deadlines is a list in the order of the deadlines.
type deadlines struct{ first, last *awaited }

// add puts a in its place, near the end: all timeouts are equal, so that only a request
// that is retried, or had to wait for a connection, is due before others in the list.
func (d *deadlines) add(a *awaited) {
	if a.waiting {
		d.remove(a)
	}
	before := d.last
	for before != nil && before.deadline > a.deadline {
		before = before.earlier
	}
	a.waiting, a.earlier = true, before
	if before != nil {
		a.later, before.later = before.later, a
	} else {
		a.later, d.first = d.first, a
	}
	if a.later != nil {
		a.later.earlier = a
	} else {
		d.last = a
	}
}

// remove takes a off the list, if it is on it.
func (d *deadlines) remove(a *awaited) {
	if !a.waiting {
		return
	}
	if a.earlier != nil {
		a.earlier.later = a.later
	} else {
		d.first = a.later
	}
	if a.later != nil {
		a.later.earlier = a.earlier
	} else {
		d.last = a.earlier
	}
	a.waiting, a.earlier, a.later = false, nil, nil
}

// shift makes the deadlines count from an instant that later by this many ns.
func (d *deadlines) shift(by int64) {
	for a := d.first; a != nil; a = a.later {
		a.deadline -= by
	}
}
