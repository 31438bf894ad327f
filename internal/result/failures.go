package result

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/tare-mesh/tare/internal/base/printable"
	"github.com/tare-mesh/tare/internal/experiment/expect"
	"github.com/tare-mesh/tare/internal/metric"
	"github.com/tare-mesh/tare/internal/stats"
)

// FaultTimes returns the trial's faults in seconds from the start of the measure
// window, as far as they lie in it.
func (r *Record) FaultTimes() []expect.Fault {
	if r.Load == nil {
		return nil
	}
	length := r.Load.MeasureSeconds
	var all []expect.Fault
	for _, f := range r.Faults {
		at := f.Start.Sub(r.Load.Start).Seconds()
		if at >= length {
			continue
		}
		times := expect.Fault{At: max(0, at), Heal: length}
		if heal := f.Healed.Sub(r.Load.Start).Seconds(); !f.Healed.IsZero() && heal < length {
			times.Heal, times.Healed = heal, true
		}
		all = append(all, times)
	}
	return all
}

// FailureText lists the four most frequent failures of requests, with their numbers.
func (l *Load) FailureText() string {
	counts := maps.Clone(l.Errors)
	if counts == nil {
		counts = map[string]int64{}
	}
	for status, n := range l.Statuses {
		if !strings.HasPrefix(status, "2") {
			counts["status "+status] += n
		}
	}
	if len(counts) == 0 {
		return "no cause is recorded"
	}
	most := printable.MostFirst(counts)
	return strings.Join(printable.Texts(most[:min(len(most), 4)], func(cause string) string { return fmt.Sprintf("%s (%d)", cause, counts[cause]) }), ", ")
}

// Disturbed reports whether faults or changes ended processes of the trial and started others.
func (r *Record) Disturbed() bool {
	return len(r.Faults) > 0 || slices.ContainsFunc(r.Changes, func(c Change) bool {
		kind, _ := metric.ChangeKindOf(c.Kind)
		return c.Task != "" || kind.Shown == metric.Replacement
	})
}

// StartsSeen returns the starts of the trial's pod as expectations use them.
func (r *Record) StartsSeen() (all []expect.Start) {
	for _, s := range r.Starts {
		all = append(all, expect.Start{First: s.FirstMS, Gone: s.GoneMS, Lost: s.Lost})
	}
	return all
}

// ChangesSeen returns the trial's changes as expectations use them.
func (r *Record) ChangesSeen() (all []expect.Change) {
	for _, c := range r.Changes {
		seen := expect.Change{Kind: c.Kind, Failed: c.Failed, Flaps: c.Flaps}
		if c.FirstNew != nil {
			seen.FirstNew = []stats.Bounded{c.FirstNew.Bounded()}
		}
		if c.LastOld != nil {
			seen.LastOld = []stats.Bounded{c.LastOld.Bounded()}
		}
		all = append(all, seen)
	}
	return all
}

// Window returns the measure window in whole seconds of the interval log.
func (l *Load) Window() (first, n int) {
	round := func(s float64) int {
		return int(time.Duration(s*float64(time.Second)).Round(time.Second) / time.Second)
	}
	return round(l.WarmupSeconds), round(l.MeasureSeconds)
}
