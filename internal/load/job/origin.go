package job

import (
	"sync/atomic"

	"github.com/tare-mesh/tare/internal/load/schedule"
	"github.com/tare-mesh/tare/internal/load/target"
)

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
