package figures

import (
	"cmp"
	"slices"

	"github.com/tare-mesh/tare/internal/experiment/mesh"
	"github.com/tare-mesh/tare/internal/metric"
	"github.com/tare-mesh/tare/internal/result"
)

// counterRoles computes each role of data and control plane from counters, if a plane has several: node proxies and
// waypoints, a control plane's own proxies and its servers.
func counterRoles(f *figures, r *result.Record, seconds float64) {
	for _, plane := range []metric.Plane{metric.Data, metric.Control} {
		byRole := map[TaskRole][]result.TaskUsage{}
		names := map[string]bool{}
		for _, t := range r.Tasks {
			if t.Plane == plane {
				byRole[roleOf(t.Task)] = append(byRole[roleOf(t.Task)], t)
				names[t.Role] = true
			}
		}
		if len(names) < 2 {
			continue
		}
		for role, tasks := range byRole {
			for _, res := range resources {
				v, ok := res.sums(tasks)[plane]
				if !ok || res.name == "" {
					continue
				}
				if f.roles[role] == nil {
					f.roles[role] = map[string]float64{}
				}
				f.roles[role][res.name] = v
				if res.name == metric.CPUCores {
					f.roles[role][res.name] = v * dilution(r.Load, seconds)
				}
				for _, per := range res.perRequest {
					if r.Answered() > 0 && seconds > 0 {
						f.roles[role][per.name] = v * seconds * per.scale / float64(r.Answered())
					}
				}
			}
		}
	}
}

// TaskRole is a part of a plane: what its tasks do, and for whom.
type TaskRole struct {
	Plane           metric.Plane
	Role, Component string
}

// roles computes each role of the data plane, if there is more than one.
func (s *sampled) roles(res sampledResource) {
	for _, r := range dataRoles(s.Tasks) {
		v := s.sum(res, func(t mesh.Task) bool { return roleOf(t) == r })
		x, ok := s.reduce(v)
		if !ok {
			continue
		}
		if s.f.roles[r] == nil {
			s.f.roles[r] = map[string]float64{}
		}
		named := map[string]float64{}
		s.set(named, res, "", x)
		for name, v := range named {
			s.f.roles[r][metric.Base(name)] = v
		}
	}
}

func dataRoles(tasks []mesh.Task) []TaskRole {
	var rs []TaskRole
	for _, t := range tasks {
		if r := roleOf(t); (t.Plane == metric.Data && r.Role != result.RoleRemainder || r.Role == result.RoleNamespace) && !slices.Contains(rs, r) {
			rs = append(rs, r)
		}
	}
	slices.SortFunc(rs, func(a, b TaskRole) int {
		return cmp.Or(cmp.Compare(a.Role, b.Role), cmp.Compare(a.Component, b.Component))
	})
	if len(rs) < 2 {
		return nil
	}
	return rs
}

func roleOf(t mesh.Task) TaskRole { return TaskRole{t.Plane, t.Role, t.Component} }
