package runner

import (
	"context"
	"fmt"
	"slices"
	"sort"
	"time"

	"github.com/tare-mesh/tare/internal/base/hint"
	"github.com/tare-mesh/tare/internal/result"
	"github.com/tare-mesh/tare/internal/run/meter"
)

// sliceRefreshes is the least length of a slice in intervals between readings: two readings then lie within it,
// however late the first one is.
const sliceRefreshes = 3

// slicesFitRefresh checks that slices are long enough for counters with a refresh interval.
func (rd *round) slicesFitRefresh(members []*trial) error {
	if rd.run.Meter.Follower() != nil {
		return nil // it reads at every edge
	}
	length := rd.run.plan.Slices.Length
	for _, t := range members {
		if !t.sampler.refreshed() {
			continue
		}
		if refresh := max(t.sampler.refresh(), t.sampler.period()); length < sliceRefreshes*refresh {
			return hint.New(fmt.Sprintf("write slices: {length: %v} or longer, or platform: {meter: node-agent} on a disposable cluster", (sliceRefreshes*refresh+time.Second-1).Truncate(time.Second)),
				"slices of %v are shorter than %d times the %v between two readings of a counter", length, sliceRefreshes, refresh)
		}
	}
	return nil
}

// pace reads counters with a refresh interval until the last edge. Their readings lie beside the edges, so their
// values there are estimated from those within each slice.
func (r *sliceReader) pace(ctx context.Context) error {
	due := r.due()
	end := due[len(due)-1].Add(lastRead)
	period := r.members[0].trial.sampler.period()
	for done := false; !done; {
		done = !time.Now().Before(end)
		for _, m := range r.members {
			if err := m.trial.sampler.look(ctx, meter.Counters); err != nil {
				return err
			}
		}
		if next := time.Now().Add(period); !done {
			if next.After(end) {
				next = end
			}
			if err := await(ctx, next); err != nil {
				return err
			}
		}
	}
	for i, m := range r.members {
		m.paced = true
		for n, look := range m.atEdges(due) {
			m.add(look, r.first+n-1, due[n].Sub(r.start), r.owner(r.first+n-1) == i)
		}
	}
	return nil
}

// atEdges are the values of the counters of a member's tasks at the edges. Slices without two readings of a
// counter are warned of.
func (m *sliceMember) atEdges(due []time.Time) []meter.Look {
	steady, looks := m.trial.setup.clock.steady, make([]meter.Look, len(due))
	edges := make([]time.Time, len(due))
	for n, at := range due {
		edges[n], looks[n].Tasks = steady(at), map[string]result.Reading{}
	}
	few := 0
	for _, task := range m.tasks {
		values, short := valuesAt(m.trial.sampler.history.tasks[task.ID], edges)
		if !ofNode(task) {
			few = max(few, short)
		}
		for n, ns := range values {
			looks[n].Tasks[task.ID] = result.Reading{At: due[n], CPU: ns}
		}
	}
	if few > 0 {
		m.trial.journal.warn(result.Warning{Code: "counters-paced", Metrics: cpus,
			Message: fmt.Sprintf("%d of %d slices have fewer than two refreshes of a counter, and its CPU in them is that of the time around them", few, len(due)-1),
			Hint:    "raise slices.length"})
	}
	return looks
}

// valuesAt are the values of a counter at the edges of slices, ns. In each slice it grows at the rate between the
// first and the last reading within the slice: what lies between two readings around an edge belongs to two
// slices in unknown parts. A slice with fewer than two readings has the interpolated growth. Their number is in
// short. No reading: nil.
func valuesAt(readings []result.Reading, edges []time.Time) (values []int64, short int) {
	if len(readings) == 0 {
		return nil, 0
	}
	value := interpolated(readings, edges[0])
	values = append(values, int64(value))
	for n, end := range edges[1:] {
		begin := edges[n]
		first := slices.IndexFunc(readings, func(r result.Reading) bool { return !r.At.Before(begin) })
		last := sort.Search(len(readings), func(i int) bool { return readings[i].At.After(end) }) - 1
		if first >= 0 && last > first {
			a, b := readings[first], readings[last]
			value += float64(b.CPU-a.CPU) * float64(end.Sub(begin)) / float64(b.At.Sub(a.At))
		} else {
			value += interpolated(readings, end) - interpolated(readings, begin)
			short++
		}
		values = append(values, int64(value))
	}
	return values, short
}

// interpolated is the value of a counter between its readings and, beyond them, the value of the nearest one.
func interpolated(readings []result.Reading, at time.Time) float64 {
	i := sort.Search(len(readings), func(i int) bool { return readings[i].At.After(at) })
	switch i {
	case 0:
		return float64(readings[0].CPU)
	case len(readings):
		return float64(readings[i-1].CPU)
	}
	a, b := readings[i-1], readings[i]
	return float64(a.CPU) + float64(b.CPU-a.CPU)*float64(at.Sub(a.At))/float64(b.At.Sub(a.At))
}
