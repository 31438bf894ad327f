package timeline

import (
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"sort"
	"time"

	"github.com/tare-mesh/tare/internal/metric"
	"github.com/tare-mesh/tare/internal/result"
)

const (
	// waitSamples is the number of instants at which the waits of a change are read.
	waitSamples = 16
	// longestReference bounds the time before or after a change in which they are.
	longestReference = 2 * time.Second
)

// addWaits adds to the effects of changes how long the connections of a worker did not show the configuration. Their requests come in
// turns, so that a change falls on a random instant between two of them: see [stats.LatestBounds]. Connections of a worker take over a
// change together. So the worst case is the worker with the fewest of them, or one connection if nothing is known of workers.
func addWaits(changes []result.Change, connections map[int][]seen, end time.Duration, workers int) {
	order := slices.Sorted(maps.Keys(connections))
	if len(order) == 0 {
		return
	}
	fewest := fewestTied(len(order), workers)
	if workers == 1 && slices.ContainsFunc(changes, func(c result.Change) bool { return untied(&c) }) {
		fewest = 1
	}
	turns := connections[order[0]]
	if fewest == len(order) {
		turns = slices.Concat(slices.Collect(maps.Values(connections))...)
		slices.SortFunc(turns, bySent)
	}
	uneven := milliseconds(unevenness(changes, turns))
	group := func(random *rand.Rand) []int { // random connections of a worker
		if fewest == len(order) {
			return order
		}
		var of []int
		for _, i := range random.Perm(len(order))[:fewest] {
			of = append(of, order[i])
		}
		return of
	}
	for i := range changes {
		c := &changes[i]
		kind, _ := metric.ChangeKindOf(c.Kind)
		if kind.Shown == metric.Outage || kind.Shown == metric.Certificate {
			continue
		}
		sent := nanoseconds(c.SentSeconds)
		previous, next := int64(0), int64(end)
		if i > 0 {
			previous = nanoseconds(changes[i-1].SentSeconds)
		}
		if i+1 < len(changes) {
			next = nanoseconds(changes[i+1].SentSeconds)
		}
		random := rand.New(rand.NewPCG(uint64(i), uint64(sent)))
		c.Tied = fewest
		before := bounds{max((previous+sent)/2, sent-int64(longestReference)), sent}
		shown := func(a seen) bool { return a.counts(c) || a.ok }
		if s := c.LastOld; s != nil {
			of := shown
			if kind.Shown == metric.Endpoint {
				of = func(a seen) bool { old, _ := a.shows(c); return a.ok && old }
			}
			s.WaitsMS = sample(random, group, connections, before, of, sinceRequest, uneven)
			if kind.Shown == metric.Endpoint && s.BeforeMS != nil && len(s.WaitsMS) > 0 { // other replicas answered before too
				*s.BeforeMS = max(*s.BeforeMS, s.AfterMS+slices.Max(s.WaitsMS))
			}
		}
		if s := c.FirstNew; s != nil && s.BeforeMS != nil {
			of, reference := shown, before
			if kind.Shown == metric.Endpoint {
				from := sent + nanoseconds(*s.BeforeMS/1000)
				of, reference = func(a seen) bool { _, added := a.shows(c); return a.ok && added }, bounds{from, min(next, from+int64(longestReference))}
			}
			s.WaitsMS = sample(random, group, connections, reference, of, untilAnswer, uneven)
		}
	}
}

// sinceRequest returns how long before an instant the last request of a connection was sent whose answer had come, of those with a
// property.
func sinceRequest(all []seen, at int64, of func(seen) bool) (int64, bool) {
	for i := sort.Search(len(all), func(i int) bool { return all[i].sent > at }) - 1; i >= 0; i-- {
		if all[i].end <= at && of(all[i]) {
			return at - all[i].sent, true
		}
	}
	return 0, false
}

// untilAnswer returns how long after an instant the answer to the next request of a connection came, of those with a property.
func untilAnswer(all []seen, at int64, of func(seen) bool) (int64, bool) {
	for i := sort.Search(len(all), func(i int) bool { return all[i].sent >= at }); i < len(all); i++ {
		if of(all[i]) {
			return all[i].end - at, true
		}
	}
	return 0, false
}

// sample reads the shortest waits of groups of connections at random instants, in ms. Nil means that there are none.
func sample(random *rand.Rand, group func(*rand.Rand) []int, connections map[int][]seen, within bounds, of func(seen) bool,
	wait func([]seen, int64, func(seen) bool) (int64, bool), uneven float64) (ms []float64) {
	if within.before <= within.after {
		return nil
	}
	for range waitSamples * 4 { // some connections never had the endpoint
		at := within.after + random.Int64N(within.before-within.after)
		var shortest int64 = never
		for _, conn := range group(random) {
			if ns, known := wait(connections[conn], at, of); known {
				shortest = min(shortest, ns)
			}
		}
		if shortest != never {
			ms = append(ms, math.Round(1e3*(milliseconds(shortest)+uneven))/1e3)
		}
		if len(ms) == waitSamples {
			return ms
		}
	}
	return nil
}

// fewestTied is the likely number of connections of the worker with the fewest, if workers accept them at random: 1 % have fewer.
// workers 0: their number is unknown.
func fewestTied(connections, workers int) int {
	switch workers {
	case 0:
		return 1
	case 1:
		return connections
	}
	mean := float64(connections) / float64(workers)
	return max(1, int(mean-2.6*math.Sqrt(mean*(1-1/float64(workers)))))
}

// untied reports whether a connection showed the old configuration by a request that was sent after another had shown the new one.
// With one worker that cannot be.
func untied(c *result.Change) bool {
	kind, _ := metric.ChangeKindOf(c.Kind)
	if kind.Shown == metric.Endpoint || c.FirstNew == nil || c.LastOld == nil || c.FirstNew.BeforeMS == nil {
		return false
	}
	return c.LastOld.AfterMS > *c.FirstNew.BeforeMS
}

// unevenness is the part of the time between two requests of a connection in which no change fell, beyond what is likely at
// random, ns. Changes at a multiple of that time would always fall on the same part of it.
func unevenness(changes []result.Change, all []seen) int64 {
	var places []float64
	turn := 0.0
	for i := range changes {
		sent := nanoseconds(changes[i].SentSeconds)
		next := sort.Search(len(all), func(k int) bool { return all[k].sent > sent })
		if next == 0 || next == len(all) {
			continue
		}
		gap := float64(all[next].sent - all[next-1].sent)
		places, turn = append(places, float64(sent-all[next-1].sent)/gap), turn+gap
	}
	n := float64(len(places))
	if n == 0 {
		return 0
	}
	slices.Sort(places)
	widest := places[0] + 1 - places[len(places)-1]
	for i := 1; i < len(places); i++ {
		widest = max(widest, places[i]-places[i-1])
	}
	if widest <= (math.Log(n)+math.Log(100))/n { // 1 % of random places have a wider one
		return 0
	}
	return int64(widest * turn / n)
}
