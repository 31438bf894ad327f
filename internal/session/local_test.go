package session

import (
	"fmt"
	"strings"
	"syscall"
	"testing"

	"github.com/tare-mesh/tare/internal/base/hint"
	"github.com/tare-mesh/tare/internal/base/proc"
	"github.com/tare-mesh/tare/internal/experiment"
	"github.com/tare-mesh/tare/internal/experiment/mesh"
	"github.com/tare-mesh/tare/internal/experiment/plan"
	"github.com/tare-mesh/tare/test/must"
)

func TestPinnedProcessorsExist(t *testing.T) {
	allowed, err := proc.AllowedCPUs()
	if err != nil || len(allowed) == 0 {
		t.Skipf("%v, %v", allowed, err)
	}
	first := fmt.Sprint(allowed[0])
	for _, list := range []string{first, listed(allowed)} {
		if err := cpusExist(map[string]string{"load": list}); err != nil {
			t.Errorf("%s: %v", list, err)
		}
	}
	err = cpusExist(map[string]string{"load": "1000," + first + ",999", "app": first, "data": "1000-1020"})
	if err == nil || !strings.Contains(err.Error(), "platform.cpus.load: this process may not use 999-1000 of the processors 1000,") || !strings.Contains(err.Error(), "platform.cpus.data") ||
		strings.Contains(err.Error(), "platform.cpus.app") || !strings.HasPrefix(hint.Of(err), "processors that it may use: "+first) {
		t.Errorf("%v, hint %q", err, hint.Of(err))
	}
	if got := listed([]int{0, 1, 2, 6, 8, 9}); got != "0-2,6,8-9" {
		t.Errorf("%q", got)
	}
}

// More connections than a process may open files are refused before the first trial.
func TestConnectionsFit(t *testing.T) {
	var limit syscall.Rlimit
	must.OK(t, syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit))
	for more, refused := range map[int]bool{-ownFiles: false, -ownFiles + 1: true} {
		err := connectionsFit(experiment.Factors{"connections": []int{1, int(limit.Max) + more}})
		if (err != nil) != refused || refused && !strings.Contains(err.Error(), "factors.connections[1]: ") {
			t.Errorf("%d beside the limit: %v", more, err)
		}
	}
}

// The plan's mesh changes and its expected time follow from the order of the trials.
func TestPlanCountsMeshChanges(t *testing.T) {
	p := &plan.Plan{Treatments: []plan.Treatment{{ID: "none"}, {ID: "a"}, {ID: "b"}, {ID: "a2"}}}
	for i, name := range []string{"none", "a", "b", "a"} {
		p.Treatments[i].Levels.Mesh = name
	}
	meshes := map[string]mesh.Definition{"none": {Name: "none"}, "a": {Name: "a", Kubernetes: &mesh.Kubernetes{}}, "b": {Name: "b", Kubernetes: &mesh.Kubernetes{}}}
	for _, id := range []string{"a", "a2", "none", "b", "a"} { // in; stays; out; in; out and in; out
		p.Trials = append(p.Trials, plan.Trial{Treatment: id})
	}
	addMeshChanges(meshes, p)
	if p.Expected != 6*MeshChange || p.MeshChanges != 6 {
		t.Errorf("%v, expected %v", p.Expected, 6*MeshChange)
	}
	p.Expected, p.MeshChanges = 0, 0
	for i := range p.Trials {
		p.Trials[i].Round = 1 + i/3
	}
	if addMeshChanges(meshes, p); p.MeshChanges != 4 { // each in once, out at the end
		t.Errorf("%d changes of rounds, want 4", p.MeshChanges)
	}
}
