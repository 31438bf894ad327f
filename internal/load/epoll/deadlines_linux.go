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

// deadlines is a list in the order of the deadlines: all time-outs are equal, so
// the first in is the first due.
type deadlines struct{ first, last *awaited }

// add puts a at the end of the list of deadlines.
func (d *deadlines) add(a *awaited) {
	if a.waiting {
		d.remove(a)
	}
	a.waiting, a.earlier, a.later = true, d.last, nil
	if d.last != nil {
		d.last.later = a
	} else {
		d.first = a
	}
	d.last = a
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
