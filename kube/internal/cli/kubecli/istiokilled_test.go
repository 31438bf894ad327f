package kubecli

import (
	"context"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/tare-mesh/tare/kube/internal/cluster"
	"github.com/tare-mesh/tare/kube/internal/meshes"
	"github.com/tare-mesh/tare/test/must"
)

// The program is killed at random moments of `mesh install istio` and `mesh uninstall istio`. Each next command finishes the
// removal: nothing of Istio is left, and no record. The moments lie within the command's longest time so far.
func TestKubernetesIstioKilled(t *testing.T) {
	kubeconfig, charts := clusterWithIstio(t)
	c, err := cluster.Connect(t.Context(), cluster.Options{Kubeconfig: kubeconfig})
	if err != nil {
		t.Fatal(err)
	}
	before, bin := objectsIn(t, c), programs(t)
	tare := func(ctx context.Context, args ...string) (string, error) {
		out, err := exec.CommandContext(ctx, filepath.Join(bin, "tare"), append(args, "--kubeconfig", kubeconfig)...).CombinedOutput()
		return string(out), err
	}
	done := func(args ...string) string {
		t.Helper()
		out, err := tare(t.Context(), args...)
		if err != nil {
			t.Errorf("tare %s: %v\n%s", strings.Join(args, " "), err, out)
		}
		return out
	}
	install := []string{"mesh", "install", "istio", "--in-use", "--charts", charts, "--version", os.Getenv("TARE_TEST_ISTIO_TAG"), "--option", "envoy=stock"}
	uninstall := []string{"mesh", "uninstall", "istio"}
	finish := []struct {
		name string
		do   func()
	}{
		{"uninstall", func() { done(uninstall...) }},
		{"cleanup", func() { done("cluster", "cleanup", "--all", "--yes") }},
		{"install", func() { done(install...); done(uninstall...) }},
	}
	longest := map[bool]time.Duration{false: 10 * time.Second, true: 10 * time.Second} // of an installation, of a removal
	moments := 4
	if os.Getenv("TARE_TEST_ALL") != "" {
		moments = 20
	}
	for i := range moments {
		args, removal := install, i%2 == 1
		if removal {
			began := time.Now()
			done(install...)
			longest[false] = max(longest[false], time.Since(began))
			args = uninstall
		}
		moment := rand.N(longest[removal])
		ctx, cancel := context.WithTimeout(t.Context(), moment) // its end is SIGKILL
		out, err := tare(ctx, args...)
		cancel()
		next := finish[i/2%len(finish)]
		t.Logf("%s killed after %v, then %s: %v: %s", args[1], moment.Round(time.Millisecond), next.name, err, lastLine(out))
		if isComplete(t, c) {
			done(uninstall...) // it is not a leftover: the kill came after its end, or before the removal began
		} else {
			next.do()
		}
		nothingAdded(t, c, before)
		if status := done("cluster", "status"); !strings.Contains(status, "meshes: none installed by tare") {
			t.Errorf("status:\n%s", status)
		}
	}
}

func isComplete(t *testing.T, c *cluster.Cluster) bool {
	t.Helper()
	all := must.Get(meshes.Installed(t.Context(), c))(t)
	return len(all) == 1 && !all[0].Incomplete
}

func lastLine(text string) string {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	return lines[len(lines)-1]
}
