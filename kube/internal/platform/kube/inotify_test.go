package kube

import (
	"strings"
	"testing"

	"github.com/tare-mesh/tare/internal/experiment"
	"github.com/tare-mesh/tare/internal/experiment/app"
	"github.com/tare-mesh/tare/internal/experiment/plan"
	"github.com/tare-mesh/tare/internal/run/platform"
)

// The replicas of a service are its own, or else those of the treatment: 50 and 2 have a sidecar each.
func TestSidecarsInATrial(t *testing.T) {
	spec := platform.Spec{Topology: app.Topology{Services: []app.Service{{Name: "nginx"}, {Name: "other", Replicas: 2}}}, Treatment: plan.Treatment{Levels: experiment.Levels{Replicas: 50}}}
	if got := sidecarsIn(&trial{spec: spec}); got != 52 {
		t.Errorf("%d sidecars, want 52", got)
	}
}

// 42 sidecars have the 128 inotify instances of a node, and the 43rd does not start.
func TestFewInotifyInstances(t *testing.T) {
	for _, c := range []struct {
		sidecars int
		limits   map[string]int64
		want     string
	}{
		{42, map[string]int64{"a": 128}, ""}, {43, map[string]int64{"a": 128}, "permit a user 128 inotify instances, and 43 sidecars take about 129 on each"},
		{90, map[string]int64{"a": 128, "b": 128, "c": 128}, ""}, {190, map[string]int64{"a": 8192, "b": 128}, ""},
		{3000, map[string]int64{"a": 1024, "b": 128}, "sysctl -w fs.inotify.max_user_instances=16384"}, {90, nil, ""},
	} {
		if got := fewInotify(c.sidecars, c.limits); got != c.want && (c.want == "" || !strings.Contains(got, c.want)) {
			t.Errorf("%d sidecars on %v: %q, want %q", c.sidecars, c.limits, got, c.want)
		}
	}
}
