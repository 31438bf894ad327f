// Package job holds one load, prepared: all that its workers need.
package job

import (
	"context"
	"math"
	"sync/atomic"
	"time"

	"github.com/tare-mesh/tare/internal/load"
	"github.com/tare-mesh/tare/internal/load/host"
	"github.com/tare-mesh/tare/internal/load/record"
	"github.com/tare-mesh/tare/internal/load/schedule"
	"github.com/tare-mesh/tare/internal/load/target"
)

// Backoff of a connection that cannot be opened, doubling from first to last.
const (
	FirstBackoff = int64(time.Millisecond)
	LastBackoff  = int64(time.Second)
)

// MaxRetries bounds how often one request is retried.
const MaxRetries = 10

// MaxOpening bounds the connections a worker opens at once before the start, so
// that a server's accept queue is not flooded.
const MaxOpening = 64

// Job is one load, prepared: all that its workers need. Only the collector and the outcome of opening connections change.
type Job struct {
	Profile   load.Profile
	Targets   []target.Target
	Origins   []Origin
	Rotation  []int // order in which the origins are visited
	Collector *record.Collector
	Spin      time.Duration

	opened   atomic.Bool   // a connection of any worker was usable
	unopened []atomic.Bool // by origin: a connection to it could not be opened
}

// Prepare reads the profile's files, looks the targets' hosts up and encodes the
// requests. p is complete and valid.
func Prepare(ctx context.Context, p load.Profile, progress func(load.Progress), look target.Lookup) (*Job, error) {
	body := target.Body(&p)
	targets, err := target.Resolve(ctx, &p, body, look)
	if err != nil {
		return nil, err
	}
	j := &Job{Profile: p, Targets: targets, Spin: spinWindow(&p, host.AllowedCPUs())}
	j.Divide(schedule.Rotation(&p))
	j.Collector = record.NewCollector(&j.Profile, progress)
	return j, nil
}

// Opened records that a connection is usable.
func (j *Job) Opened() { mark(&j.opened) }

// Unopened records that a connection to the origin of a target could not be opened.
func (j *Job) Unopened(t *target.Target) { mark(&j.unopened[t.Origin]) }

// mark sets a flag once: workers on other processors need not share its memory afterwards.
func mark(flag *atomic.Bool) {
	if !flag.Load() {
		flag.Store(true)
	}
}

// HasOpened reports whether any connection was usable, since [Job.ForgetOpening].
func (j *Job) HasOpened() bool { return j.opened.Load() }

// ForgetOpening forgets the outcome of all connections so far.
func (j *Job) ForgetOpening() {
	for i := range j.unopened {
		j.unopened[i].Store(false)
	}
	j.opened.Store(false)
}

// NoneOpens reports whether no connection was usable, and one to each origin could not be opened.
func (j *Job) NoneOpens() bool {
	for i := range j.unopened {
		if !j.unopened[i].Load() {
			return false
		}
	}
	return !j.opened.Load()
}

// Schedule returns worker i's share of the schedule.
func (j *Job) Schedule(i int) schedule.Schedule {
	p := &j.Profile
	return schedule.New(p, p.Part*p.Workers+i, max(1, p.Parts)*p.Workers)
}

// Quota returns the maximum number of requests of worker i in the measure window.
func (j *Job) Quota(i int) int64 {
	p := &j.Profile
	if p.Requests == 0 {
		return math.MaxInt64
	}
	return int64(schedule.Share(int(p.Requests), max(1, p.Parts)*p.Workers, p.Part*p.Workers+i))
}

// Quotas returns the sum of the quotas of all workers of this process.
func (j *Job) Quotas() int64 {
	if j.Profile.Requests == 0 {
		return math.MaxInt64
	}
	var sum int64
	for i := range j.Profile.Workers {
		sum += j.Quota(i)
	}
	return sum
}

// spinWindow returns the spin window of a process that may use a number of CPUs. By
// default it is zero unless each worker has a core beside one for its server. A
// core taken from the system under test is worse than a late send.
func spinWindow(p *load.Profile, cpus int) time.Duration {
	if p.Rate > 0 && (len(p.CPUs) >= p.Workers+1 || len(p.CPUs) == 0 && cpus >= 2*p.Workers+2) {
		return load.DefaultSpin
	}
	return 0
}

// Origin is a scheme, host and port with the requests that its connections carry.
type Origin struct {
	Targets []*target.Target
	Turns   []int32 // targets in the order in which they are visited, of this origin alone
}

// Divide divides the order of the targets among their origins.
func (j *Job) Divide(order []int) {
	place := make([]int32, len(j.Targets)) // of a target within its origin
	for i := range j.Targets {
		t := &j.Targets[i]
		for len(j.Origins) <= t.Origin {
			j.Origins = append(j.Origins, Origin{})
		}
		o := &j.Origins[t.Origin]
		place[i] = int32(len(o.Targets))
		o.Targets = append(o.Targets, t)
	}
	j.unopened = make([]atomic.Bool, len(j.Origins))
	j.Rotation = make([]int, len(order))
	for turn, i := range order {
		at := j.Targets[i].Origin
		j.Rotation[turn] = at
		o := &j.Origins[at]
		o.Turns = append(o.Turns, place[i])
	}
}

// Assign divides the connections of a worker among the origins.
func (j *Job) Assign(connections int) []int {
	weights := make([]int, len(j.Origins))
	for i, w := range schedule.Weights(&j.Profile) {
		weights[j.Targets[i].Origin] += w
	}
	return schedule.Assign(weights, connections)
}

// Cursor goes through the turns of an origin, for one worker.
type Cursor struct {
	*Origin
	turn int // the next
}

// Next returns the target of the next turn.
func (c *Cursor) Next() (target int32) {
	target = c.Turns[c.turn]
	if c.turn++; c.turn == len(c.Turns) {
		c.turn = 0
	}
	return target
}

// Queue is a first-in-first-out queue that grows and never shrinks.
type Queue[T any] struct {
	items      []T
	head, Size int
}

func (r *Queue[T]) Push(v T) {
	if r.Size == len(r.items) {
		grown := make([]T, max(16, 2*len(r.items)))
		for i := range r.Size {
			grown[i] = r.items[(r.head+i)%len(r.items)]
		}
		r.items, r.head = grown, 0
	}
	at := r.head + r.Size
	if at >= len(r.items) {
		at -= len(r.items)
	}
	r.items[at] = v
	r.Size++
}

// First returns the item that Pop returns next, and requires a queue that is
// not empty.
func (r *Queue[T]) First() T { return r.items[r.head] }

func (r *Queue[T]) Pop() (v T, ok bool) {
	if r.Size == 0 {
		return v, false
	}
	var zero T
	v, r.items[r.head] = r.items[r.head], zero
	if r.head++; r.head == len(r.items) {
		r.head = 0
	}
	r.Size--
	return v, true
}
