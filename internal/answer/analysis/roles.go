package analysis

import (
	"cmp"
	"slices"

	"github.com/tare-mesh/tare/internal/experiment/mesh"
	"github.com/tare-mesh/tare/internal/metric"
	"github.com/tare-mesh/tare/internal/result"
)

// taskRole is a part of a plane: what its tasks do, and for whom.
type taskRole struct {
	plane           metric.Plane
	role, component string
}

// Role is a part of a treatment's data or control plane: node proxies apart from
// waypoints, a control plane's own proxies apart from its servers, and the load
// generator's own sidecars apart from the others. If a source has only namespaces,
// each namespace is a role.
type Role struct {
	Plane     metric.Plane        `json:"plane"`
	Role      string              `json:"role"`
	Component string              `json:"component,omitempty"`
	Metrics   map[string]Estimate `json:"metrics"` // by base name, e.g. that of CPU cores
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

// counterRoles computes each role of data and control plane from counters, if a plane has several: node proxies and
// waypoints, a control plane's own proxies and its servers.
func counterRoles(f *figures, r *result.Record, seconds float64) {
	for _, plane := range []metric.Plane{metric.Data, metric.Control} {
		byRole := map[taskRole][]result.TaskUsage{}
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
				v, ok := planeSums(tasks, res.of)[plane]
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
					if r.Load != nil && r.Load.Completed > 0 && seconds > 0 {
						f.roles[role][per.name] = v * seconds * per.scale / float64(r.Load.Completed)
					}
				}
			}
		}
	}
}

func roleOf(t mesh.Task) taskRole { return taskRole{t.Plane, t.Role, t.Component} }

func dataRoles(tasks []mesh.Task) []taskRole {
	var rs []taskRole
	for _, t := range tasks {
		if r := roleOf(t); (t.Plane == metric.Data && r.role != result.RoleRemainder || r.role == result.RoleNamespace) && !slices.Contains(rs, r) {
			rs = append(rs, r)
		}
	}
	slices.SortFunc(rs, func(a, b taskRole) int {
		return cmp.Or(cmp.Compare(a.role, b.role), cmp.Compare(a.component, b.component))
	})
	if len(rs) < 2 {
		return nil
	}
	return rs
}

// roles estimates each role of the data plane over the trials.
func (x *estimator) roles(trials []Trial) []Role {
	values := map[taskRole]map[string][]float64{}
	var order []taskRole
	for _, t := range trials {
		for r, metrics := range t.roles {
			if values[r] == nil {
				values[r] = map[string][]float64{}
				order = append(order, r)
			}
			for name, v := range metrics {
				values[r][name] = append(values[r][name], v)
			}
		}
	}
	slices.SortFunc(order, func(a, b taskRole) int {
		return cmp.Or(cmp.Compare(b.plane, a.plane), cmp.Compare(a.role, b.role), cmp.Compare(a.component, b.component)) // data before control
	})
	var out []Role
	for _, r := range order {
		role := Role{Plane: r.plane, Role: r.role, Component: r.component, Metrics: map[string]Estimate{}}
		for name, v := range values[r] {
			if row, ok := metric.LookupBase(name); ok {
				role.Metrics[name] = x.estimate(metric.Metric{Name: name, Unit: row.Unit}, v, trials[:len(v)])
			}
		}
		out = append(out, role)
	}
	return out
}
