package meter

import (
	"context"
	"errors"
	"maps"

	"github.com/tare-mesh/tare/internal/run/platform"
)

// Beside reads processes of this machine with here, and all other tasks with there. Totals are
// those of there's machines.
func Beside(there, here Meter) Meter { return beside{there, here} }

type beside struct{ there, here Meter }

// Read implements [Meter]. This machine is first: its reading takes no time.
func (b beside) Read(ctx context.Context, tasks []platform.Task, depth Depth) (Look, error) {
	var own, others []platform.Task
	for _, t := range tasks {
		if t.PID != 0 {
			own = append(own, t)
		} else {
			others = append(others, t)
		}
	}
	if own == nil {
		return b.there.Read(ctx, tasks, depth)
	}
	near, err := b.here.Read(ctx, own, depth)
	look, failed := b.there.Read(ctx, others, depth)
	if err := errors.Join(err, failed); err != nil {
		return Look{}, err
	}
	look.Tasks, look.Missing = joined(near.Tasks, look.Tasks), joined(near.Missing, look.Missing)
	return look, nil
}

func joined[V any](a, b map[string]V) map[string]V {
	all := make(map[string]V, len(a)+len(b))
	maps.Copy(all, a)
	maps.Copy(all, b)
	return all
}
