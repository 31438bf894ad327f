package result

import (
	"iter"
	"slices"
	"time"
)

// Worked is the time that a run spent on these trials, without interruptions of over five minutes.
func Worked(records []Record) (all time.Duration) {
	for _, span := range Spans(records) {
		all += span
	}
	return all
}

// longestPause is the longest pause between two trials of one session. A longer one is an interruption.
const longestPause = 5 * time.Minute

// Spans are the trials in the order of their ends, each with the time since the end of the trial before: that between them,
// such as the installation of a mesh, belongs to it. After an interruption of over five minutes it is the trial's own time. Trials
// of a round overlap. Records without times, which no run made, are left out.
func Spans(records []Record) iter.Seq2[*Record, time.Duration] {
	records = slices.SortedFunc(slices.Values(records), func(a, b Record) int { return a.Ended.Compare(b.Ended) })
	return func(yield func(*Record, time.Duration) bool) {
		var end time.Time // of the trial before
		for i := range records {
			r := &records[i]
			begin := r.Started
			if begin.IsZero() || !r.Ended.After(begin) {
				continue
			}
			if !end.IsZero() && begin.Sub(end) <= longestPause {
				begin = end
			}
			end = r.Ended
			if !yield(r, end.Sub(begin)) {
				return
			}
		}
	}
}
