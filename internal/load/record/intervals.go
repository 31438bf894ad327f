package record

import "time"

// intervals are the intervals of the interval log: the seconds of the schedule, divided at the edges of the measure
// window, so that the window is a sum of intervals. Time stamps of the log have milliseconds. An edge between
// two of them divides nothing.
type intervals struct {
	edges [2]int64 // ns from t0, ascending, 0 if it divides nothing
}

func intervalsOf(warmup, measure time.Duration) (v intervals) {
	for i, edge := range []time.Duration{warmup, warmup + measure} {
		if edge%time.Second != 0 && edge%time.Millisecond == 0 {
			v.edges[i] = int64(edge)
		}
	}
	return v
}

// Exact reports whether a measure window is a sum of intervals of its log.
func Exact(warmup, measure time.Duration) bool {
	return warmup%time.Millisecond == 0 && measure%time.Millisecond == 0
}

// index is the number of the interval of an instant, ns from t0.
func (v *intervals) index(at int64) int {
	i := int(at / 1e9)
	for _, edge := range v.edges {
		if edge != 0 && at >= edge {
			i++
		}
	}
	return i
}

// bounds are the beginning and the end of the interval of an instant.
func (v *intervals) bounds(at int64) (from, to time.Duration) {
	begin := at - at%1e9
	end := begin + 1e9
	for _, edge := range v.edges {
		switch {
		case begin < edge && edge <= at:
			begin = edge
		case at < edge && edge < end:
			end = edge
		}
	}
	return time.Duration(begin), time.Duration(end)
}
