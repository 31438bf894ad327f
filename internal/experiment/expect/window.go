package expect

import "time"

// window is a part of the measure phase. The zero value is the whole of it.
type window struct {
	relation string // "", during, before, after: to a fault
	from, to time.Duration
	cut      bool // from and to count; to 0: to the end
}

// window reads what follows the value, if anything does.
func (p *parser) window() (w window, err error) {
	const example = "fault, or a time such as 5s"
	switch {
	case p.accept("during"):
		return window{relation: "during"}, p.must("fault", "write: during fault")
	case p.accept("from"):
		w.cut = true
		if w.from, err = p.time("a time such as 5s", ""); err == nil {
			err = p.must("to", "write: from 5s to 10s")
		}
		if err != nil {
			return w, err
		}
		at := p.peek()
		if w.to, err = p.time("a time such as 10s", ""); err == nil && w.to <= w.from {
			err = p.wrong(at, "a time after "+w.from.String(), "")
		}
	case p.accept("after"):
		if p.accept("fault") {
			return window{relation: "after"}, nil
		}
		w.cut = true
		w.from, err = p.time(example, "")
	case p.accept("before"):
		if p.accept("fault") {
			return window{relation: "before"}, nil
		}
		at := p.peek()
		w.cut = true
		if w.to, err = p.time(example, ""); err == nil && w.to == 0 {
			err = p.wrong(at, "a time above 0", "")
		}
	}
	return w, err
}

// whole reports whether it is the whole measure phase.
func (w window) whole() bool { return w == window{} }

// needsFault reports whether it is empty without faults.
func (w window) needsFault() bool { return w.relation != "" }

func (w window) secondsOf(t Trial) []Second {
	var in []Second
	for i, s := range t.Seconds {
		if w.has(i, t.Faults) {
			in = append(in, s)
		}
	}
	return in
}

// has reports whether a second of the measure phase is in the window. A second belongs to a fault if any part
// of it does. So does the second before the fault: its requests may have been in
// flight when the fault began. "before" and "after" select only seconds entirely
// outside every fault, before the first and after the last.
func (w window) has(second int, faults []Fault) bool {
	from, to := float64(second), float64(second+1)
	if w.cut {
		return from >= w.from.Seconds() && (w.to == 0 || to <= w.to.Seconds())
	}
	return w.relation == "" || w.holds(faults, from, to)
}

func (w window) holds(faults []Fault, from, to float64) bool {
	during, before, after := false, true, true
	for _, f := range faults {
		during = during || (f.At-underWay < to && f.Heal > from)
		before = before && to <= f.At-underWay
		after = after && from >= f.Heal
	}
	return map[string]bool{"during": during, "before": before, "after": after && len(faults) > 0}[w.relation]
}
