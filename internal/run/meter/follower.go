package meter

import (
	"context"
	"time"

	"github.com/tare-mesh/tare/internal/run/platform"
)

// Follower reads CPU times by itself at planned instants, where the tasks are.
type Follower interface {
	// Follow plans readings of several groups of tasks, at instants in ascending order.
	Follow(ctx context.Context, groups [][]platform.Task, at []time.Time) (Following, error)
}

// Following is a plan in progress.
type Following interface {
	// Next returns the instants read since the last call, oldest first. It waits about a second if there
	// are none. done: no more follow.
	Next(ctx context.Context) (read []Instant, done bool, err error)
}

// Instant is one reading of all groups.
type Instant struct {
	At    time.Time // when it began
	Looks []Look    // of the groups
}
