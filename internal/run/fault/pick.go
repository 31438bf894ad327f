package fault

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"

	"github.com/tare-mesh/tare/internal/experiment"
	"github.com/tare-mesh/tare/internal/metric"
	"github.com/tare-mesh/tare/internal/run/platform"
)

// errNothingToHit says that nothing there is what the fault is for: a mesh without
// sidecars has none to kill. That is no failure.
var errNothingToHit = errors.New("there is nothing to hit")

// pick chooses what a fault hits, of what no other holds.
func pick(f experiment.Fault, k kind, victims []platform.Victim, held map[string]bool, random *rand.Rand) ([]target, error) {
	all, exists := candidates(f, k, victims)
	if !exists {
		if f.Target.Plane == string(metric.App) {
			return nil, fmt.Errorf("service %s has no replica to hit", f.Target.Service)
		}
		return nil, fmt.Errorf("%w: no task of %s is in the %s plane", errNothingToHit, f.Target.Service, f.Target.Plane)
	}
	if f.Kind == "scale" && f.By > 0 {
		return removed(f, all)
	}
	var free []target
	for _, c := range all {
		if c.up && !held[c.name] {
			free = append(free, c.target)
		}
	}
	n := 1
	switch {
	case f.Kind == "scale":
		n = -f.By
	case f.Target.Pick == "all":
		n = len(free)
	}
	if len(free) < max(n, 1) {
		return nil, fmt.Errorf("%d of %s are left that run and that no other fault holds, %d are to be hit", len(free), f.Target.Service, max(n, 1))
	}
	if f.Target.Pick == "random" {
		random.Shuffle(len(free), func(i, j int) { free[i], free[j] = free[j], free[i] })
	}
	return free[:n], nil
}

// removed are pods that a scaling down took away. There can be no others: the
// proxies' and callers' lists of replicas are written when a trial is deployed.
func removed(f experiment.Fault, all []candidate) ([]target, error) {
	var gone []target
	for _, c := range all {
		if !c.up {
			gone = append(gone, c.target)
		}
	}
	if len(gone) < f.By {
		return nil, fmt.Errorf("scale %s by %d: %w: %d replicas were removed before, and their number when the trial is deployed is the most there can be",
			f.Target.Service, f.By, errors.ErrUnsupported, len(gone))
	}
	return gone[:f.By], nil
}

// candidate is a target and whether all of it runs.
type candidate struct {
	target
	up    bool
	plane bool // a task of the plane that is to be hit is among it
}

// candidates are the victims a fault may hit, as targets; exists says whether
// there are any. Where whole pods are hit, they are those that have a task of the plane.
func candidates(f experiment.Fault, k kind, victims []platform.Victim) (all []candidate, exists bool) {
	for _, v := range victims {
		plane := string(v.Plane) == f.Target.Plane
		if !ofService(f, v) || (!plane && !k.pods) {
			continue
		}
		if f.Target.Replica != nil && *f.Target.Replica != v.Replica {
			continue
		}
		if !k.pods {
			all = append(all, candidate{target{v.ID, []string{v.ID}}, v.Up, true})
			continue
		}
		i := slices.IndexFunc(all, func(c candidate) bool { return c.name == v.Pod })
		if i < 0 {
			all = append(all, candidate{target{name: v.Pod}, true, false})
			i = len(all) - 1
		}
		all[i].tasks = append(all[i].tasks, v.ID)
		all[i].up = all[i].up && v.Up
		all[i].plane = all[i].plane || plane
	}
	all = slices.DeleteFunc(all, func(c candidate) bool { return !c.plane })
	return all, len(all) > 0
}

// ofService: the control plane is of no service.
func ofService(f experiment.Fault, v platform.Victim) bool {
	return v.Service == f.Target.Service || (f.Target.Plane == string(metric.Control) && v.Plane == metric.Control)
}
