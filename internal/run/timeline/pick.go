package timeline

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"

	"github.com/tare-mesh/tare/internal/experiment"
	"github.com/tare-mesh/tare/internal/metric"
	"github.com/tare-mesh/tare/internal/run/platform"
)

// errNoTarget: the trial has no such target, as a mesh without sidecars. It is not a failure.
var errNoTarget = errors.New("no target")

// pick chooses the targets of a fault among the tasks that no other fault holds.
func pick(f experiment.Fault, k kind, victims []platform.Victim, held map[string]*injected, random *rand.Rand) ([]target, error) {
	all, exists := candidates(f, k, victims)
	if !exists {
		if f.Target.Plane == string(metric.App) {
			return nil, fmt.Errorf("service %s has no replica to hit", f.Target.Service)
		}
		return nil, fmt.Errorf("%w: no task of %s is in the %s plane", errNoTarget, f.Target.Service, f.Target.Plane)
	}
	if f.Kind == "scale" && f.By > 0 {
		return removed(f, all)
	}
	taken := func(name string) bool { return held[name] != nil }
	var free []target
	for _, c := range all {
		if c.up && !slices.ContainsFunc(k.holds(c.target), taken) {
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
		return nil, fmt.Errorf("%d targets of %s run without another fault, %d are needed", len(free), f.Target.Service, max(n, 1))
	}
	if f.Target.Pick == "random" {
		random.Shuffle(len(free), func(i, j int) { free[i], free[j] = free[j], free[i] })
	}
	return free[:n], nil
}

// removed returns pods that an earlier fault removed. There are no others: the lists of replicas
// in proxies and callers are written when a trial is deployed.
func removed(f experiment.Fault, all []candidate) ([]target, error) {
	var gone []target
	for _, c := range all {
		if !c.up {
			gone = append(gone, c.target)
		}
	}
	if len(gone) < f.By {
		return nil, fmt.Errorf("scale %s by %d: %w: %d replicas were removed before, and the number at deployment is the maximum",
			f.Target.Service, f.By, errors.ErrUnsupported, len(gone))
	}
	return gone[:f.By], nil
}

// candidate is a target, which is up if all of its tasks run.
type candidate struct {
	target
	up    bool
	plane bool // one of its tasks is in the fault's plane
}

// candidates are the possible targets of a fault, and exists reports whether there is one. If
// whole pods are hit, one of a pod's tasks must be in the fault's plane.
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

// ofService reports whether a victim belongs to the fault's service. The control plane belongs to
// none.
func ofService(f experiment.Fault, v platform.Victim) bool {
	return v.Service == f.Target.Service || (f.Target.Plane == string(metric.Control) && v.Plane == metric.Control)
}
