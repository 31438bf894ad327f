package compare

import (
	"cmp"
	"slices"

	"github.com/tare-mesh/tare/internal/figures"
	"github.com/tare-mesh/tare/internal/metric"
)

// Role is a part of a treatment's data or control plane: node proxies apart from
// waypoints, a control plane's own proxies apart from its servers, and the load
// generator's own sidecars apart from the others. If a source has only namespaces,
// each namespace is a role.
type Role struct {
	Plane     metric.Plane        `json:"plane"`
	Role      string              `json:"role"`
	Component string              `json:"component,omitempty"`
	Metrics   map[string]Estimate `json:"metrics"` // by base name, e.g. of CPU cores
}

// roles estimates each role of the data plane over the trials.
func (x *estimator) roles(trials []figures.Measured) []Role {
	values := map[figures.TaskRole]map[string][]float64{}
	var order []figures.TaskRole
	for _, t := range trials {
		for r, metrics := range t.Roles {
			if values[r] == nil {
				values[r] = map[string][]float64{}
				order = append(order, r)
			}
			for name, v := range metrics {
				values[r][name] = append(values[r][name], v)
			}
		}
	}
	slices.SortFunc(order, func(a, b figures.TaskRole) int {
		return cmp.Or(cmp.Compare(b.Plane, a.Plane), cmp.Compare(a.Role, b.Role), cmp.Compare(a.Component, b.Component)) // data before control
	})
	var out []Role
	for _, r := range order {
		role := Role{Plane: r.Plane, Role: r.Role, Component: r.Component, Metrics: map[string]Estimate{}}
		for name, v := range values[r] {
			if row, ok := metric.LookupBase(name); ok {
				role.Metrics[name] = x.estimate(metric.Metric{Name: name, Unit: row.Unit}, v, trials[:len(v)])
			}
		}
		out = append(out, role)
	}
	return out
}

// sidecars counts the pods with a sidecar in each valid trial of a treatment: a sidecar may have several processes. It
// returns 0 if trials differ, or if the data plane has tasks with another role.
func sidecars(run *Run, treatment string) int {
	count := -1
	for i := range run.Records {
		r := &run.Records[i]
		if r.Treatment != treatment || !run.Trials[i].Valid {
			continue
		}
		pods := map[string]bool{}
		for _, t := range r.Tasks {
			switch {
			case t.Plane != metric.Data:
			case t.Role != "sidecar":
				return 0
			default:
				pods[t.Pod] = true
			}
		}
		if count >= 0 && len(pods) != count {
			return 0
		}
		count = len(pods)
	}
	return max(count, 0)
}
