package clustertest

import (
	"context"
	"fmt"
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

	"github.com/tare-mesh/tare/internal/base/wait"
	"github.com/tare-mesh/tare/kube/internal/cluster"
	"github.com/tare-mesh/tare/test/must"
)

// BurnerCores is the CPU limit of app in [Burner], and twice the limit of proxy. They use less on a busy machine.
const BurnerCores = 0.3

// Burner starts a pod "burner" in a namespace of its own that burns CPU up to the limits of the container app and of the native
// sidecar proxy. The container idle has no limit and burns nothing. It returns its containers.
func Burner(t *testing.T, c *cluster.Cluster) []cluster.Container {
	t.Helper()
	container := func(name string, cores float64, script string) corev1.Container {
		k := corev1.Container{Name: name, Image: Toolbox, ImagePullPolicy: corev1.PullNever, Command: []string{"/bin/busybox", "sh", "-c", script}}
		if cores > 0 {
			k.Resources.Limits = corev1.ResourceList{corev1.ResourceCPU: *resource.NewMilliQuantity(int64(1000*cores), resource.DecimalSI)}
		}
		return k
	}
	always, zero, no := corev1.ContainerRestartPolicyAlways, int64(0), false
	const burn = "while :; do :; done"
	sidecar := container("proxy", BurnerCores/2, burn)
	sidecar.RestartPolicy = &always
	namespace, stamp := Namespace(t, c)
	ctx := Within(t, 2*time.Minute)
	must.OK(t, c.Apply(ctx, stamp, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "burner"}, Spec: corev1.PodSpec{
		TerminationGracePeriodSeconds: &zero, AutomountServiceAccountToken: &no,
		InitContainers: []corev1.Container{container("setup", 0, "true"), sidecar},
		Containers:     []corev1.Container{container("app", BurnerCores, burn), container("idle", 0, "sleep 3600")},
	}}))
	must.OK(t, c.WaitReady(ctx, nil, cluster.Ref{Kind: cluster.KindPod, Namespace: namespace, Name: "burner"}))
	return must.Get(c.Reader().Containers(ctx, namespace))(t)
}

// Follow reads the CPU time of a container from its own control group often, until the test ends. The function returns it at a
// moment, ns, and whether it was read before and after.
func Follow(t *testing.T, id string) func(time.Time) (int64, bool) {
	t.Helper()
	dir := groupOf(t, id)
	var mu sync.Mutex
	var times []time.Time
	var used []int64
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		for wait.For(ctx, 50*time.Millisecond) == nil {
			if ns, err := groupCPU(dir); err == nil {
				mu.Lock()
				times, used = append(times, time.Now()), append(used, ns)
				mu.Unlock()
			}
		}
	}()
	t.Cleanup(func() { stop(); <-done })
	return func(at time.Time) (int64, bool) {
		mu.Lock()
		defer mu.Unlock()
		for i := 1; i < len(times); i++ {
			if before, after := times[i-1], times[i]; !at.Before(before) && !at.After(after) {
				return used[i-1] + int64(float64(used[i]-used[i-1])*float64(at.Sub(before))/float64(after.Sub(before))), true
			}
		}
		return 0, false
	}
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
	return 0, fmt.Errorf("%s/cpu.stat has no usage_usec", dir)
}
