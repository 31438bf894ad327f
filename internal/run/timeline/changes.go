package timeline

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"sort"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/tare-mesh/tare/internal/base/lists"
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
		return lists.Map(random.Perm(len(order))[:fewest], func(i int) int { return order[i] })
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

const (
	// handshakeEvery is the time between TLS handshakes while a certificate is renewed.
	handshakeEvery = 5 * time.Millisecond
	// handshakeShare of the time since the change is the least time between them too, so that a long wait costs little CPU.
	handshakeShare = 0.01
	// handshakesAfter is the least time of handshakes after the first with the new certificate.
	handshakesAfter = 50 * time.Millisecond
	// maxHandshakes is the number of them under way.
	maxHandshakes = 64
)

// readSerials reads the certificates of all endpoints, if one of them is renewed.
func (c *Changes) readSerials(ctx context.Context) error {
	for _, next := range c.plan {
		if next.described.Shown != metric.Certificate || c.serials[next.Endpoint] != "" {
			continue
		}
		if c.deployment.Serial == nil {
			return fmt.Errorf("change %s: %w by the platform", next.Kind, errors.ErrUnsupported)
		}
		if err := c.readSerial(ctx, next.Endpoint); err != nil {
			return fmt.Errorf("change %s: %w", next.Kind, err)
		}
	}
	return nil
}

func (c *Changes) readSerial(ctx context.Context, endpoint string) error {
	serial, err := c.deployment.Serial(ctx, endpoint)
	if err != nil {
		return fmt.Errorf("read the certificate of %s: %w", endpoint, err)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.serials[endpoint] = serial
	return nil
}

// handshake is one TLS handshake. Its instants are from the change.
type handshake struct {
	sent, end time.Duration
	serial    string // empty: it failed
}

// renew changes a certificate, while handshakes at a fixed rate show which one is in use. They end when the new one was seen for as
// long as it took, or after half of the time to the next change, or before it without a new one.
func (c *Changes) renew(ctx context.Context, change change, sent time.Time, made *result.Change) error {
	c.mu.Lock()
	old := c.serials[change.Endpoint]
	c.mu.Unlock()
	accepted := make(chan error, 1)
	var prepared time.Duration // of the change, until it was sent
	change.Sending = sync.OnceFunc(func() { prepared = time.Since(sent) })
	go routine.Guarded(func() {
		err := c.deployment.Changer.Change(ctx, change.Change)
		made.AcceptedSeconds = made.SentSeconds + seconds(time.Since(sent))
		accepted <- err
	})()
	var mu sync.Mutex
	var all []handshake
	seen := time.Duration(math.MaxInt64) // when the new one was seen first
	latest := time.Duration(0)           // when a handshake was sent last
	probing, stop := context.WithTimeout(ctx, change.next*3/4-time.Since(sent))
	defer stop()
	wait.Every(probing, handshakeEvery, maxHandshakes, func() {
		h := handshake{sent: time.Since(sent)}
		mu.Lock()
		over := seen != math.MaxInt64 && (h.sent-seen > max(seen, handshakesAfter) || h.sent >= change.next/2-clockLead)
		due := float64(h.sent-latest) >= handshakeShare*float64(h.sent)
		if due {
			latest = h.sent
		}
		mu.Unlock()
		if over {
			stop()
		}
		if over || !due {
			return
		}
		serial, err := c.deployment.Serial(ctx, change.Endpoint)
		h.end = time.Since(sent)
		mu.Lock()
		defer mu.Unlock()
		if err == nil {
			if h.serial = serial; serial != old {
				seen = min(seen, h.end)
			}
		}
		all = append(all, h)
	})
	if err := <-accepted; err != nil {
		return err
	}
	made.SentSeconds += seconds(prepared)
	all = since(all, prepared)
	c.mu.Lock()
	c.serials[change.Endpoint] = presented(all, old, made)
	c.mu.Unlock()
	return c.repeat(ctx, change, sent.Add(prepared), all)
}

// since counts the instants of handshakes from a later one. Handshakes that ended before it show nothing.
func since(all []handshake, later time.Duration) (after []handshake) {
	for _, h := range all {
		if h.sent, h.end = max(0, h.sent-later), h.end-later; h.end > 0 {
			after = append(after, h)
		}
	}
	return after
}

// repeat makes the handshakes of a change again in the second half of the time to the next, after one for the reading before it. That
// half has the level of CPU without a change, so that no handshake of tare is in the CPU of the change.
func (c *Changes) repeat(ctx context.Context, change change, sent time.Time, all []handshake) error {
	for _, h := range append([]handshake{{}}, all...) {
		if h.sent >= change.next/2-clockLead { // late, or the clocks were read before
			continue
		}
		if err := wait.For(ctx, time.Until(sent.Add(change.next/2+h.sent))); err != nil {
			return err
		}
		_, _ = c.deployment.Serial(ctx, change.Endpoint) // only its CPU counts
	}
	return nil
}

// presented adds to a change what handshakes show of it, and returns the certificate after it.
func presented(all []handshake, old string, made *result.Change) (serial string) {
	first, serial := handshake{end: math.MaxInt64}, old
	for _, h := range all {
		if h.serial != "" && h.serial != old && h.end < first.end {
			first, serial = h, h.serial
		}
	}
	var before, last time.Duration // when the last handshakes with the old one were sent, before the first new one and at all
	for _, h := range all {
		switch h.serial {
		case "":
			made.Failed++
			continue
		case old:
			last = max(last, h.sent)
			if h.sent < first.sent || first.end == math.MaxInt64 {
				before = max(before, h.sent)
			}
			if h.sent > first.end {
				made.Flaps++
			}
		}
		made.Probes++
	}
	none, known := bounds{0, never}, bounds{int64(before), int64(first.end)}
	made.FirstNew, made.LastOld = none.span(0), none.span(0)
	if first.end == math.MaxInt64 {
		made.FirstNew.AfterMS, made.LastOld.AfterMS = milliseconds(int64(last)), milliseconds(int64(last))
		return serial
	}
	made.FirstNew = known.span(0)
	after := bounds{int64(last), never}
	for _, h := range all {
		if h.serial == serial && h.sent > last {
			after.before = min(after.before, int64(h.end))
		}
	}
	made.LastOld = after.span(0)
	return serial
}
