package kubecli

import (
	"context"
	"crypto/rand"
	"errors"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tare-mesh/tare/internal/base/must"
	"github.com/tare-mesh/tare/internal/experiment"
	"github.com/tare-mesh/tare/internal/experiment/mesh"
	"github.com/tare-mesh/tare/internal/kube/cluster"
	"github.com/tare-mesh/tare/internal/result"
	"github.com/tare-mesh/tare/internal/run/meter"
	"github.com/tare-mesh/tare/internal/run/platform"
	"github.com/tare-mesh/tare/internal/session/kubernetes"
)

// Every meter agrees with a container's control group about its CPU in a window. The
// counters of the kubelet are within 2 %, the averages of the Metrics API within 5 %. The node agent and the kubelet agree within 1 %.
func TestKubernetesMetersAgree(t *testing.T) {
	path := os.Getenv("TARE_TEST_KUBECONFIG")
	switch {
	case path == "" && os.Getenv("CI") == "true" && !testing.Short():
		t.Fatal("TARE_TEST_KUBECONFIG is not set: there is no cluster to test against")
	case path == "" || testing.Short():
		t.Skip("needs a cluster: set TARE_TEST_KUBECONFIG (`make cluster` leaves one up)")
	}
	if _, err := kubernetesPrograms(); err != nil { // the agent's image
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 4*time.Minute)
	defer cancel()
	k := must.Get(cluster.Connect(ctx, cluster.Options{Kubeconfig: path}))(t)
	disposable(t, k)
	task, group := burn(ctx, t, k)
	within := map[string]float64{"node-agent": 0.005, "kubelet": 0.02, "metrics-api": 0.05}
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
	own := followGroup(t, group)
	seen, missing := map[string][]result.Reading{}, map[string]error{}
	begin := time.Now()
	// Wait until every meter has two readings a minute apart.
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
			ready = ready && len(all) > 1 && all[len(all)-1].At.Sub(all[0].At) > time.Minute
		}
		if err := sleepFor(ctx, time.Second); err != nil {
			for name := range meters {
				t.Errorf("%s: %d readings, missing: %v", name, len(seen[name]), missing[name])
			}
			t.Fatal("not every meter has readings of the pod over a minute")
		}
	}
	for name, all := range seen {
		a, b := all[0], all[len(all)-1]
		wall := b.At.Sub(a.At)
		got := float64(b.CPU-a.CPU) / float64(wall)
		want := float64(own(t, b.At)-own(t, a.At)) / float64(wall)
		share[name] = got / want
		refresh, _, err := meters[name].Refresh(ctx)
		if err != nil {
			t.Errorf("%s: %v", name, err)
		}
		t.Logf("%-12s %.4f cores over %v (%d readings, refreshed every %v); the control group %.4f: %+.2f %%", name, got,
			wall.Round(time.Millisecond), len(all), refresh, want, 100*(got/want-1))
		limit := within[name]
		if name == "metrics-api" && want < 0.9*burnt { // its averages begin and end elsewhere, and the CPU of a starved pod varies
			limit = 0.15
		}
		if math.Abs(got/want-1) > limit {
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

func sleepFor(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-time.After(d):
		return nil
	}
}

// burnt is the CPU limit of the pod of burn, cores. It uses less on a busy machine.
const burnt = 0.3

// burn starts a pod with one container that uses 0.3 cores, and returns the directory of its control group.
func burn(ctx context.Context, t *testing.T, k *cluster.Cluster) (platform.Task, string) {
	t.Helper()
	space := "tare-test-" + strings.ToLower(rand.Text()[:8])
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		if err := k.Delete(ctx, nil, cluster.Ref{Kind: cluster.KindNamespace, Name: space}); err != nil {
			t.Errorf("leave nothing: %v", err)
		}
	})
	zero, no := int64(0), false
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: space, Name: "burner"}, Spec: corev1.PodSpec{
		TerminationGracePeriodSeconds: &zero, AutomountServiceAccountToken: &no,
		Containers: []corev1.Container{{Name: "app", Image: os.Getenv("TARE_TEST_TOOLBOX"), ImagePullPolicy: corev1.PullNever,
			Command:   []string{"/bin/busybox", "sh", "-c", "while :; do :; done"},
			Resources: corev1.ResourceRequirements{Limits: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("300m")}}}},
	}}
	s := cluster.Stamp{Run: space}
	for _, step := range []func() error{
		func() error {
			return k.Apply(ctx, s, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: space}})
		},
		func() error { return k.WaitReady(ctx, nil, cluster.Ref{Kind: cluster.KindNamespace, Name: space}) },
		func() error { return k.Apply(ctx, s, pod) },
		func() error {
			return k.WaitReady(ctx, nil, cluster.Ref{Kind: cluster.KindPod, Namespace: space, Name: "burner"})
		},
	} {
		must.OK(t, step())
	}
	all, err := k.Reader().Containers(ctx, space)
	if err != nil || len(all) != 1 {
		t.Fatalf("%+v, %v", all, err)
	}
	return platform.Task{Task: mesh.Task{ID: "burner/app", Namespace: space, Pod: "burner", Container: "app"}}, groupOf(t, all[0].ID)
}

// groupOf returns the directory of a container's control group.
func groupOf(t *testing.T, id string) string {
	t.Helper()
	for _, root := range []string{"/sys/fs/cgroup/cpuacct/*/kubepods/", "/sys/fs/cgroup/*/kubepods/"} {
		for _, pod := range []string{"*/pod*/", "pod*/"} { // pods of the class Guaranteed lie directly below
			if found, _ := filepath.Glob(root + pod + id); len(found) == 1 {
				return found[0]
			}
		}
	}
	t.Fatalf("no control group of container %s: the test needs a cluster on this machine", id)
	return ""
}

// followGroup reads a control group's CPU often, and returns a function that interpolates it at any moment since.
func followGroup(t *testing.T, dir string) func(*testing.T, time.Time) int64 {
	var mu sync.Mutex
	var times []time.Time
	var used []int64
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		for sleepFor(ctx, 50*time.Millisecond) == nil {
			if ns, err := groupCPU(dir); err == nil {
				mu.Lock()
				times, used = append(times, time.Now()), append(used, ns)
				mu.Unlock()
			}
		}
	}()
	t.Cleanup(func() { stop(); <-done })
	return func(t *testing.T, at time.Time) int64 {
		t.Helper()
		mu.Lock()
		defer mu.Unlock()
		for i := 1; i < len(times); i++ {
			if times[i].Before(at) {
				continue
			}
			share := float64(at.Sub(times[i-1])) / float64(times[i].Sub(times[i-1]))
			return used[i-1] + int64(share*float64(used[i]-used[i-1]))
		}
		t.Fatalf("the control group was not read at %v", at)
		return 0
	}
}

func groupCPU(dir string) (int64, error) {
	b, err := os.ReadFile(filepath.Join(dir, "cpuacct.usage"))
	if err == nil {
		return strconv.ParseInt(strings.TrimSpace(string(b)), 10, 64)
	}
	if b, err = os.ReadFile(filepath.Join(dir, "cpu.stat")); err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(b)) {
		if us, ok := strings.CutPrefix(line, "usage_usec "); ok {
			n, err := strconv.ParseInt(strings.TrimSpace(us), 10, 64)
			return 1000 * n, err
		}
	}
	return 0, errors.New("cpu.stat has no usage_usec")
}
