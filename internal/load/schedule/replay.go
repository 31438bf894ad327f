package schedule

import "github.com/tare-mesh/tare/internal/load"

// replay is every step-th of the instants.
type replay struct {
	instants []int64
	k, step  int
}

func (r *replay) Next() int64 {
	if r.k >= len(r.instants) {
		return load.Never
	}
	at := r.instants[r.k]
	r.k += r.step
	return at
}
