package kubelet

import (
	"context"
	"fmt"
	"time"

	"golang.org/x/sync/errgroup"
)

const (
	// Longest is the longest time between two refreshes of a counter that is expected:
	// cAdvisor's housekeeping is 10 s, 15 s where a container is idle, and up to as much
	// again at random (manager/container.go); a kubelet that looks at its node for
	// evictions refreshes them sooner, so that 10 to 16 s are seen.
	Longest = 30 * time.Second
	// probePeriod is the time between two looks of a probe.
	probePeriod = time.Second
	// probeFresh looks one after another that all bring new readings show that counters are
	// read as they are asked for.
	probeFresh = 5
	// probeIntervals are seen of each counter before its refresh is taken as known.
	probeIntervals = 2
	// probeFor bounds a probe.
	probeFor = 70 * time.Second
)

// Pace is how often a cluster's counters are refreshed.
type Pace struct {
	// Containers is the longest time between two refreshes that was seen of any
	// container's counters; 0: they are read whenever they are asked for.
	Containers time.Duration
	// Node is the same of the nodes' own counters; 0: none was refreshed while the others were watched.
	Node time.Duration
	// Intervals is how many were seen.
	Intervals int
}

// Probe watches the counters of everything that runs until each was refreshed
// often enough to tell the pace, a minute at most. A counter that was not refreshed
// in that time counts as [Longest].
func (m *Meter) Probe(ctx context.Context) (Pace, error) {
	containers, nodes := watched{}, watched{}
	var asked time.Duration
	for look := 1; ; look++ {
		readings, whole, err := m.times(ctx)
		if err != nil {
			return Pace{}, fmt.Errorf("probe how often counters are refreshed: %w", err)
		}
		containers.see(readings)
		nodes.see(whole)
		// What is read as it is asked for is soon known too, as refreshed once a look: it takes some more to tell.
		fresh := len(containers) > 0 && look > probeFresh && containers.fresh()
		if fresh || look > probeFresh && containers.known() || asked >= probeFor {
			return pace(containers, nodes, fresh), nil
		}
		if err := m.pause(ctx, probePeriod); err != nil {
			return Pace{}, fmt.Errorf("probe how often counters are refreshed: %w", err)
		}
		asked += probePeriod
	}
}

func pace(containers, nodes watched, fresh bool) Pace {
	p := Pace{Intervals: containers.intervals() + nodes.intervals()}
	if nodes.intervals() > 0 {
		p.Node = nodes.longest()
	}
	if !fresh {
		p.Containers = containers.longest()
	}
	return p
}

type fullKey struct {
	node string
	containerKey
}

// times are the times of every counter that all nodes have.
func (m *Meter) times(ctx context.Context) (containers, nodes map[fullKey]time.Time, err error) {
	answers := make([]resources, len(m.nodes))
	group, asking := errgroup.WithContext(ctx)
	for i, n := range m.nodes {
		group.Go(func() (err error) {
			answers[i], err = read(asking, m.source, n.Name, resourcePath, parseResources)
			return err
		})
	}
	if err := group.Wait(); err != nil {
		return nil, nil, err
	}
	containers, nodes = map[fullKey]time.Time{}, map[fullKey]time.Time{}
	for i, n := range m.nodes {
		if at := answers[i].node.At; !at.IsZero() {
			nodes[fullKey{node: n.Name}] = at
		}
		for key, r := range answers[i].containers {
			containers[fullKey{n.Name, key}] = r.At
		}
	}
	return containers, nodes, nil
}

// watched are counters, and what was seen of their refreshing.
type watched map[fullKey]*refreshes

type refreshes struct {
	last      time.Time
	longest   time.Duration
	intervals int
	looks     int
}

func (w watched) see(now map[fullKey]time.Time) {
	for key, at := range now {
		r, ok := w[key]
		if !ok {
			w[key] = &refreshes{last: at, looks: 1}
			continue
		}
		r.looks++
		if !at.After(r.last) {
			continue
		}
		// Both ends carry times of their own: the interval is exact, whenever it was looked at.
		r.longest = max(r.longest, at.Sub(r.last))
		r.last = at
		r.intervals++
	}
	for key := range w { // one that ended is not waited for
		if _, ok := now[key]; !ok {
			delete(w, key)
		}
	}
}

// fresh says that all counters have a new time in each look that was made of them.
func (w watched) fresh() bool {
	for _, r := range w {
		if r.intervals < r.looks-1 {
			return false
		}
	}
	return true
}

func (w watched) known() bool {
	for _, r := range w {
		if r.intervals < probeIntervals {
			return false
		}
	}
	return true
}

func (w watched) intervals() (n int) {
	for _, r := range w {
		n += r.intervals
	}
	return n
}

// longest is rounded up to the second.
func (w watched) longest() (d time.Duration) {
	for _, r := range w {
		if r.intervals == 0 {
			return Longest
		}
		d = max(d, r.longest)
	}
	return (d + time.Second - 1).Truncate(time.Second)
}
