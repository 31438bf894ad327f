package timeline

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/tare-mesh/tare/internal/base/routine"
	"github.com/tare-mesh/tare/internal/base/wait"
	"github.com/tare-mesh/tare/internal/experiment"
	"github.com/tare-mesh/tare/internal/experiment/mesh"
	"github.com/tare-mesh/tare/internal/metric"
	"github.com/tare-mesh/tare/internal/result"
	"github.com/tare-mesh/tare/internal/run/platform"
)

// Changes are the changes of one trial. They are used once.
type Changes struct {
	// Restarts: processes end and start again, so that they are listed at each change.
	Restarts bool
	// Remote: CPU clocks are read over a network.
	Remote bool

	deployment *platform.Deployment
	every      time.Duration
	plan       []change
	serials    map[string]string // of the certificate of each endpoint, as it is before the next renewal

	clocks []Clocks // at each half of the time from a change to the next, from the first change on

	process sync.RWMutex // a process that ends and starts again is not called meanwhile

	mu      sync.Mutex
	made    map[int]*result.Change // by their number in the plan
	updates map[int]update         // of proxies, by the number of the change before
}

type change struct {
	platform.Change
	described metric.ChangeKind
	task      string        // that ends and starts again, empty for none
	at        time.Duration // from the start of the measure phase
	next      time.Duration // from it to the next change
}

// NewChanges plans the changes of a trial, of a service. Trials of a seed have the same. Without a mesh, a plane without processes
// is no error: nothing restarts when its changes are due.
func NewChanges(c experiment.Changes, seed uint64, entry string, meshed bool, d *platform.Deployment) (*Changes, error) {
	if c.Every == 0 {
		return &Changes{}, nil
	}
	if d.Changer == nil {
		return nil, fmt.Errorf("changes: %w by the platform", errors.ErrUnsupported)
	}
	p := planner{random: rand.New(rand.NewPCG(seed, 0x636861)), endpoints: d.Changer.Endpoints(), meshed: meshed, tasks: map[metric.Plane][]string{}}
	if d.Restarter != nil {
		for _, plane := range []metric.Plane{metric.Data, metric.Control} {
			p.tasks[plane] = d.Restarter.Restartable(plane)
		}
	} else if d.TaskFaults != nil {
		for _, v := range d.TaskFaults.Victims() {
			if v.Plane == metric.Control || v.Service == entry {
				p.tasks[v.Plane] = append(p.tasks[v.Plane], v.ID)
			}
		}
	}
	plan, err := p.plan(c)
	restarts := slices.ContainsFunc(plan, func(next change) bool { return next.task != "" || next.described.Shown == metric.Replacement })
	return &Changes{Restarts: restarts, made: map[int]*result.Change{}, updates: map[int]update{}, deployment: d, every: time.Duration(c.Every), plan: plan, serials: map[string]string{}}, err
}

// planner draws the changes of a trial.
type planner struct {
	random    *rand.Rand
	endpoints []string
	meshed    bool
	tasks     map[metric.Plane][]string
}

// unevenShare is the part of the time between changes that is random. At equal distances changes could always fall on the same
// part of the time between two requests of a connection.
const unevenShare = 0.25

// plan draws the order of the kinds, each once in as many changes as there are kinds. A change is undone by the next one.
func (p planner) plan(c experiment.Changes) (all []change, err error) {
	version, out, listed := 0, "", p.endpoints
	var kinds []string
	for n := range c.Count {
		if len(kinds) == 0 {
			kinds = p.order(c.Kinds)
		}
		next := change{at: time.Duration((float64(n+1) + unevenShare*p.random.Float64()) * float64(c.Every))}
		next.Kind, kinds = kinds[0], kinds[1:]
		next.described, _ = metric.ChangeKindOf(next.Kind)
		switch kind := next.described; {
		case kind.Shown == metric.Version, kind.Shown == metric.Replacement:
			version++
		case next.Kind == metric.EndpointRemoved:
			out = p.draw(p.endpoints)
			next.Endpoint = out
			listed = slices.DeleteFunc(slices.Clone(p.endpoints), func(e string) bool { return e == out })
		case next.Kind == metric.EndpointAdded:
			next.Endpoint, listed = out, p.endpoints
		case kind.Shown == metric.Certificate:
			next.Endpoint = p.draw(p.endpoints)
		case kind.Plane != "" && len(p.tasks[kind.Plane]) == 0 && !p.meshed: // nothing restarts
		case kind.Plane != "" && len(p.tasks[kind.Plane]) == 0:
			return nil, fmt.Errorf("changes: %s: %w: the deployment has no such process", next.Kind, errors.ErrUnsupported)
		case kind.Plane != "":
			next.task = p.draw(p.tasks[kind.Plane])
		}
		next.Version, next.Endpoints = version, listed
		if n > 0 {
			all[n-1].next = next.at - all[n-1].at
		}
		next.next = time.Duration((1 - unevenShare) * float64(c.Every))
		all = append(all, next)
	}
	return all, nil
}

// order shuffles kinds. One that undoes another comes after it.
func (p planner) order(kinds []string) (all []string) {
	after := map[string]string{}
	var first []string
	for _, name := range kinds {
		if kind, _ := metric.ChangeKindOf(name); kind.After != "" {
			after[kind.After] = name
		} else {
			first = append(first, name)
		}
	}
	p.random.Shuffle(len(first), func(i, j int) { first[i], first[j] = first[j], first[i] })
	for _, name := range first {
		all = append(all, name)
		if undoes := after[name]; undoes != "" {
			all = append(all, undoes)
		}
	}
	return all
}

func (p planner) draw(from []string) string { return from[p.random.IntN(len(from))] }

// Run makes each change when it is due after begin, also while an earlier one is under way. start is the start of the
// load, from which the instants of the results count. made gets each change after it was made.
func (c *Changes) Run(ctx context.Context, start, begin, end time.Time, made func(result.Change)) error {
	if err := c.readSerials(ctx); err != nil {
		return err
	}
	group, ctx := errgroup.WithContext(ctx)
	c.readUpdates(ctx, group, begin, end)
	for i, next := range c.plan {
		group.Go(routine.Guarded(func() error {
			came, err := await(ctx, begin.Add(next.at), end)
			if err != nil || !came {
				return err
			}
			change, err := c.make(ctx, i, next, start, begin)
			if err == nil {
				made(change)
			}
			return err
		}))
	}
	return group.Wait()
}

func (c *Changes) make(ctx context.Context, number int, next change, start, begin time.Time) (made result.Change, err error) {
	if next.task == "" {
		c.process.RLock()
		defer c.process.RUnlock()
	} else {
		c.process.Lock()
		defer c.process.Unlock()
	}
	if next.described.Shown == metric.Certificate {
		_ = c.readSerial(ctx, next.Endpoint) // an earlier change may have renewed all certificates; without an answer the known one stays
	}
	sent := time.Now()
	made = result.Change{Kind: next.Kind, Version: next.Version, Endpoint: next.Endpoint, Task: next.task,
		DueSeconds: seconds(begin.Add(next.at).Sub(start)), SentSeconds: seconds(sent.Sub(start))}
	switch {
	case next.task != "":
		err = c.restart(ctx, next)
	case next.described.Plane != "": // without a mesh
	case next.described.Shown == metric.Certificate:
		err = c.renew(ctx, next, sent, &made)
	default:
		if next.described.Shown == metric.Replacement {
			if err := c.prepare(ctx, next, start, &made); err != nil {
				return made, err
			}
			next.Moved = &mesh.Moved{}
		}
		next.Sending = sync.OnceFunc(func() { made.SentSeconds = seconds(time.Since(start)) })
		err = c.deployment.Changer.Change(ctx, next.Change)
		made.AcceptedSeconds = seconds(time.Since(start))
		if next.Moved != nil && next.Moved.Proxies > 0 {
			made.Moved = next.Moved
		}
	}
	if err != nil {
		return made, fmt.Errorf("change %s: %w", next.Kind, err)
	}
	if made.AcceptedSeconds == 0 {
		made.AcceptedSeconds = seconds(time.Since(start))
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.made[number] = &made
	return made, nil
}

// prepare installs the control plane of a version change.
func (c *Changes) prepare(ctx context.Context, next change, start time.Time, made *result.Change) error {
	next.Prepare = true
	if err := c.deployment.Changer.Change(ctx, next.Change); err != nil {
		return fmt.Errorf("prepare change %s: %w", next.Kind, err)
	}
	made.PreparedSeconds = seconds(time.Since(start))
	return nil
}

// restartGrace is the time from SIGTERM to SIGKILL of a process that starts again.
const restartGrace = 5 * time.Second

// restart ends a process and starts it again. It returns when the process is ready.
func (c *Changes) restart(ctx context.Context, next change) error {
	var stopped time.Duration
	if next.Kind == metric.ControlStopped {
		stopped = next.next / 2
	}
	if c.deployment.Restarter != nil {
		return c.deployment.Restarter.Restart(ctx, next.described.Plane, next.task, stopped)
	}
	if err := c.deployment.TaskFaults.End(ctx, next.task, restartGrace); err != nil {
		return err
	}
	if err := wait.For(ctx, stopped); err != nil {
		return err
	}
	return c.deployment.TaskFaults.Restart(ctx, next.task)
}

// clockLead is how long before a change CPU clocks are read, so that the reading is over when it is made. Where processes end
// and start again, they are listed before. The agents of a cluster answer over its API server.
const (
	clockLead       = time.Millisecond
	clockListLead   = 25 * time.Millisecond
	clockRemoteLead = 100 * time.Millisecond
)

// Clocks are the CPU times of all planes at one instant.
type Clocks struct {
	At time.Time
	NS map[metric.Plane]int64
}

// Watch reads the CPU clocks shortly before each change, and in the middle of the time to the next. A change has them
// if none of its three readings failed, or came after the change.
func (c *Changes) Watch(ctx context.Context, begin, end time.Time, read func(context.Context) (Clocks, error)) error {
	if c.every == 0 {
		return nil
	}
	lead := clockLead
	switch {
	case c.Remote:
		lead = clockRemoteLead
	case c.Restarts:
		lead = clockListLead
	}
	for i := range 2*len(c.plan) + 1 {
		of := c.plan[min(i/2, len(c.plan)-1)]
		due := begin.Add(of.at + time.Duration(i-2*min(i/2, len(c.plan)-1))*of.next/2)
		came, err := await(ctx, due.Add(-lead), end)
		if err != nil || !came {
			return err
		}
		clocks, err := read(ctx)
		if err != nil {
			return err
		}
		if clocks.At.After(due) {
			clocks.NS = nil
		}
		c.clocks = append(c.clocks, clocks)
	}
	return nil
}

// seconds is rounded once, unlike [time.Duration.Seconds], so that nanoseconds remain.
func seconds(d time.Duration) float64 { return float64(d) / 1e9 }

// Made returns the changes that were made, in the order of sending, with the CPU time around each.
func (c *Changes) Made() []result.Change {
	c.mu.Lock()
	defer c.mu.Unlock()
	var all []result.Change
	for number, made := range c.made {
		if from := 2 * number; from+2 < len(c.clocks) && !c.readsParts(number) {
			made.CPU = around(c.clocks[from], c.clocks[from+1], c.clocks[from+2])
		}
		all = append(all, *made)
	}
	slices.SortFunc(all, func(a, b result.Change) int { return cmp.Compare(a.SentSeconds, b.SentSeconds) })
	return all
}

// around returns the CPU time in the two halves between three readings, nil if one is missing.
func around(begin, middle, end Clocks) *result.ChangeCPU {
	if begin.NS == nil || middle.NS == nil || end.NS == nil {
		return nil
	}
	cpu := &result.ChangeCPU{NS: map[metric.Plane][2]int64{}}
	cpu.Seconds = [2]float64{middle.At.Sub(begin.At).Seconds(), end.At.Sub(middle.At).Seconds()}
	for plane, ns := range begin.NS {
		cpu.NS[plane] = [2]int64{middle.NS[plane] - ns, end.NS[plane] - middle.NS[plane]}
	}
	return cpu
}
