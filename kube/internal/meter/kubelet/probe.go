package kubelet

import (
	"context"
	"fmt"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/tare-mesh/tare/internal/base/routine"
	"github.com/tare-mesh/tare/internal/run/meter"
)

const (
	// Longest is the longest expected refresh interval of a counter. cAdvisor's
	// housekeeping takes 10 s, 15 s for an idle container, and up to the same time again
	// at random (manager/container.go). The kubelet's eviction checks refresh counters
	// sooner, so 10 to 16 s are usual.
	Longest = 30 * time.Second
	// probePeriod is the time between two readings of a probe.
	probePeriod = time.Second
	// probeFresh successive readings with new times show that counters are current.
	probeFresh = 5
	// probeIntervals of each counter are needed to determine its refresh interval.
	probeIntervals = 2
	// probeFor bounds a probe.
	probeFor = 70 * time.Second
)

// Pace is the refresh interval of a cluster's counters.
type Pace struct {
	// Containers is the longest observed refresh interval of containers' counters,
	// 0 if they are current.
	Containers time.Duration
	// Node is the same of the nodes' own counters, 0 if none was refreshed during the probe.
	Node time.Duration
	// Intervals is the number of observed intervals.
	Intervals int
}

// Probe reads the counters of all containers until each was refreshed often enough to
// determine the interval, for a minute at most. A counter without a refresh in that time
// counts as [Longest].
func (m *Meter) Probe(ctx context.Context) (Pace, error) {
	containers, nodes := watched{}, watched{}
	var asked time.Duration
	for look := 1; ; look++ {
		readings, whole, err := m.times(ctx)
		if err != nil {
			return Pace{}, fmt.Errorf("measure the counter refresh interval: %w", err)
		}
		containers.see(readings)
		nodes.see(whole)
		// Current counters look like refreshes at each reading: some more readings distinguish them.
		fresh := len(containers) > 0 && look > probeFresh && containers.fresh()
		if fresh || look > probeFresh && containers.known() || asked >= probeFor {
			return pace(containers, nodes, fresh), nil
		}
		if err := m.pause(ctx, probePeriod); err != nil {
			return Pace{}, fmt.Errorf("measure the counter refresh interval: %w", err)
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
	meter.Container
}

// times are the times of every counter that the nodes have.
func (m *Meter) times(ctx context.Context) (containers, nodes map[fullKey]time.Time, err error) {
	of := m.nodesOf(nil)
	answers := make([]resources, len(of))
	group, asking := errgroup.WithContext(ctx)
	group.SetLimit(atOnce)
	for i, n := range of {
		group.Go(routine.Guarded(func() (err error) {
			answers[i], err = read(asking, m.source, n.Name, resourcePath, parseResources)
			return err
		}))
	}
	if err := group.Wait(); err != nil {
		return nil, nil, err
	}
	containers, nodes = map[fullKey]time.Time{}, map[fullKey]time.Time{}
	for i, n := range of {
		if at := answers[i].node.At; !at.IsZero() {
			nodes[fullKey{node: n.Name}] = at
		}
		for key, r := range answers[i].containers {
			containers[fullKey{n.Name, key}] = r.At
		}
	}
	return containers, nodes, nil
}

// watched are counters and their observed refreshes.
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
		// Both ends have their own times: the interval is exact.
		r.longest = max(r.longest, at.Sub(r.last))
		r.last = at
		r.intervals++
	}
	for key := range w { // ended containers are ignored
		if _, ok := now[key]; !ok {
			delete(w, key)
		}
	}
}

// fresh reports whether all counters have a new time in each reading.
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
