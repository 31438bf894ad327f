package figures

import (
	"math"
	"testing"
	"time"

	"github.com/tare-mesh/tare/internal/experiment/mesh"
	"github.com/tare-mesh/tare/internal/metric"
	"github.com/tare-mesh/tare/internal/result"
)

// A control plane's own proxies, node proxies and waypoints are lines of their own; a classification from elsewhere moves them.
func TestRolesFromCounters(t *testing.T) {
	at := time.Unix(1000, 0)
	task := func(plane metric.Plane, role string, cpu int64) result.TaskUsage {
		return result.TaskUsage{Task: mesh.Task{ID: role, Namespace: "mesh", Container: role, Plane: plane, Role: role},
			Start: result.Reading{At: at}, End: result.Reading{At: at.Add(10 * time.Second), CPU: cpu, RSS: 1 << 20}}
	}
	r := result.Record{Load: &result.Load{Completed: 1000, MeasureSeconds: 10, Classes: map[string]int64{"2xx": 1000}}, Tasks: []result.TaskUsage{
		task(metric.Data, "node-proxy", 1e9), task(metric.Data, "waypoint", 2e9),
		task(metric.Control, "server", 3e8), task(metric.Control, "embedded-proxy", 1e8), task(metric.App, "", 1e9),
	}}
	f := trialFigures(&r, false)
	for role, want := range map[TaskRole]float64{
		{metric.Data, "node-proxy", ""}: 1000, {metric.Data, "waypoint", ""}: 2000,
		{metric.Control, "server", ""}: 300, {metric.Control, "embedded-proxy", ""}: 100,
	} {
		if got := f.roles[role]["cpu_us_per_request"]; math.Abs(got-want) > 1e-6 {
			t.Errorf("%s %s is %v µs a request, want %v", role.Plane, role.Role, got, want)
		}
	}
	if len(f.roles) != 4 {
		t.Errorf("%d roles, want 4", len(f.roles))
	}
	records := []result.Record{r}
	rules := mesh.Attribution{Tasks: []mesh.Rule{{Plane: metric.Control, Container: "node-*"}, {Plane: metric.App, Namespace: "mesh"}}}
	reattribute(records, rules.Attribute)
	f = trialFigures(&records[0], false)
	if got := f.values["cpu_us_per_request/control"]; math.Abs(got-1000) > 1e-6 {
		t.Errorf("control plane by other rules is %v µs a request, want 1000", got)
	}
	if got := f.values["cpu_us_per_request/app"]; math.Abs(got-3400) > 1e-6 || len(f.roles) != 0 {
		t.Errorf("application by other rules is %v µs a request and %d roles, want 3400 and none", got, len(f.roles))
	}
}
