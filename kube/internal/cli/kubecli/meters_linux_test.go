package kubecli

import (
	"context"
	"errors"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/tare-mesh/tare/internal/base/wait"
	"github.com/tare-mesh/tare/internal/experiment"
	"github.com/tare-mesh/tare/internal/experiment/mesh"
	"github.com/tare-mesh/tare/internal/result"
	"github.com/tare-mesh/tare/internal/run/meter"
	"github.com/tare-mesh/tare/internal/run/platform"
	"github.com/tare-mesh/tare/kube/internal/session/kubernetes"
	"github.com/tare-mesh/tare/kube/test/clustertest"
	"github.com/tare-mesh/tare/test/must"
)

// Every meter agrees with a container's control group about its CPU in a window. The
// counters of the kubelet are within 2 %. The node agent and the kubelet agree within 1 %.
// A simulated node, which has no kubelet, stops none.
func TestKubernetesMetersAgree(t *testing.T) {
	k := clustertest.Connect(t)
	if _, err := kubernetesPrograms(); err != nil { // the agent's image
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 4*time.Minute)
	defer cancel()
	clustertest.SimulatedNode(t, k)
	disposable(t, k)
	var task platform.Task
	var own func(time.Time) (int64, bool)
	for _, c := range clustertest.Burner(t, k) {
		if c.Name == "app" {
			task, own = platform.Task{Task: mesh.Task{ID: "burner/app", Namespace: c.Namespace, Pod: c.Pod, Container: c.Name}}, clustertest.Follow(t, c.ID)
		}
	}
	within := map[string]float64{"node-agent": 0.005, "kubelet": 0.02}
	meters := map[string]kubernetes.ClusterMeter{}
	for name := range within {
		meters[name] = must.Get(kubernetes.OpenMeter(ctx, kubernetes.MeterSource{Cluster: k, Platform: experiment.Platform{Meter: name}, Run: task.Namespace, Image: kubernetesImage, Note: func(text string) { t.Log(text) }}))(t)
	}
	agents := meters["node-agent"].Agents
	t.Cleanup(func() {
		if err := agents.Stop(context.Background()); err != nil {
			t.Error(err)
		}
	})
	must.OK(t, agents.Start(ctx))
	unprivileged(t)
	share := map[string]float64{} // of what the control group counted between the same moments
	seen, missing := map[string][]result.Reading{}, map[string]error{}
	begin := time.Now()
	// Wait until every meter has two readings half a minute apart.
	for ready := false; !ready; {
		ready = true
		for name, m := range meters {
			l, err := m.Read(ctx, []platform.Task{task}, meter.Counters)
			if err != nil {
				t.Fatalf("%s: %v; missing before: %v", name, err, missing)
			}
			missing[name] = errors.Join(l.Gap, l.Missing[task.ID])
			r, ok := l.Tasks[task.ID]
			all := seen[name]
			if n := len(all); ok && r.At.After(begin) && (n == 0 || r.At.After(all[n-1].At)) {
				seen[name] = append(all, r)
			}
			all = seen[name]
			ready = ready && len(all) > 1 && all[len(all)-1].At.Sub(all[0].At) > 30*time.Second
		}
		if err := wait.For(ctx, time.Second); err != nil {
			for name := range meters {
				t.Errorf("%s: %d readings, missing: %v", name, len(seen[name]), missing[name])
			}
			t.Fatal("not every meter has readings of the pod over half a minute")
		}
	}
	for name, all := range seen {
		a, b := all[0], all[len(all)-1]
		wall := b.At.Sub(a.At)
		got := float64(b.CPU-a.CPU) / float64(wall)
		from, known := own(a.At)
		to, also := own(b.At)
		if !known || !also {
			t.Fatalf("the control group was not read at %v and %v", a.At, b.At)
		}
		want := float64(to-from) / float64(wall)
		share[name] = got / want
		refresh, _, err := meters[name].Refresh(ctx)
		if err != nil {
			t.Errorf("%s: %v", name, err)
		}
		t.Logf("%-12s %.4f cores over %v (%d readings, refreshed every %v); the control group %.4f: %+.2f %%", name, got,
			wall.Round(time.Millisecond), len(all), refresh, want, 100*(got/want-1))
		if math.Abs(got/want-1) > within[name] {
			t.Errorf("%s: %.4f cores, the control group %.4f", name, got, want)
		}
	}
	if ratio := share["node-agent"] / share["kubelet"]; math.Abs(ratio-1) > 0.01 {
		t.Errorf("the node agent and the kubelet differ by %+.2f %%", 100*(ratio-1))
	}
}

// unprivileged checks the node agents of this machine: no root, no capability, no new privileges, a read-only mount.
func unprivileged(t *testing.T) {
	t.Helper()
	found := 0
	processes := must.Get(filepath.Glob("/proc/[0-9]*"))(t)
	for _, p := range processes {
		command, err := os.ReadFile(filepath.Join(p, "cmdline"))
		if err != nil || !strings.HasPrefix(string(command), "/tare-agent\x00node\x00") {
			continue
		}
		found++
		status, _ := os.ReadFile(filepath.Join(p, "status"))
		must.Contain(t, string(status), "\nUid:\t65532\t65532\t65532\t65532\n", "\nCapEff:\t0000000000000000\n", "\nNoNewPrivs:\t1\n", "\nSeccomp:\t2\n")
		mounts, _ := os.ReadFile(filepath.Join(p, "mountinfo"))
		must.Contain(t, string(mounts), " /host/cgroup ro,")
	}
	if found == 0 {
		t.Error("no node agent runs on this machine")
	}
}
