package kubecli

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tare-mesh/tare/internal/cli/console"
	"github.com/tare-mesh/tare/internal/kube/cluster"
	"github.com/tare-mesh/tare/internal/kube/leftover"
)

func TestCleanupChoosesWhatIsDead(t *testing.T) {
	owner := func(f func(*cluster.Owner)) cluster.Owner { o := cluster.ThisProcess(); f(&o); return o }
	found := []leftover.Run{
		{ID: "alive", Owner: cluster.ThisProcess()},
		{ID: "dead", Owner: owner(func(o *cluster.Owner) { o.Start-- })},
		{ID: "elsewhere", Owner: owner(func(o *cluster.Owner) { o.Host = "another" })},
		{ID: "unmarked"},
	}
	for name, c := range map[string]struct {
		o    cleanup
		want string
	}{
		"by default": {cleanup{}, "dead"},
		"all":        {cleanup{all: true}, "dead elsewhere unmarked"},
		"named":      {cleanup{run: "alive"}, "alive"},
	} {
		chosen, err := c.o.choose(found)
		var runs []string
		for _, l := range chosen {
			runs = append(runs, l.ID)
		}
		if got := strings.Join(runs, " "); err != nil || got != c.want {
			t.Errorf("%s: %s, %v", name, got, err)
		}
	}
	var usage *console.UsageError
	if _, err := (&cleanup{run: "ded"}).choose(found); !errors.As(err, &usage) || usage.Hint() != "did you mean dead?" {
		t.Errorf("%v", err)
	}
}

func TestClusterCommandsWithoutACluster(t *testing.T) {
	none := filepath.Join(t.TempDir(), "none")
	for _, args := range [][]string{{"status"}, {"adopt", "--yes"}, {"release"}} {
		_, err := call(t, append(append([]string{"cluster"}, args...), "--kubeconfig", none)...)
		if !errors.Is(err, os.ErrNotExist) {
			t.Errorf("%v: %v", args, err)
		}
	}
	out, err := call(t, "cluster", "rbac", "--subject", "user:jo")
	if err != nil || !strings.Contains(out, "kind: ClusterRole\n") || !strings.Contains(out, `name: "jo"`) {
		t.Errorf("%v\n%s", err, out)
	}
	var usage *console.UsageError
	if _, err := call(t, "cluster", "rbac", "--subject", "jo"); !errors.As(err, &usage) {
		t.Errorf("%v", err)
	}
	if _, err := call(t, "cluster", "rbac", "-n", "not: a name"); err == nil {
		t.Error("a namespace that cannot be was taken")
	}
	if err := (console.Console{In: strings.NewReader("y\n")}).Confirm("remove it", false); !errors.As(err, &usage) {
		t.Errorf("asked without a terminal: %v", err)
	}
}

// On a real cluster: status describes it, and cleanup refuses a run without objects.
func TestKubernetesClusterCommands(t *testing.T) {
	path := clusterOfTests(t)
	out, err := call(t, "cluster", "status", "--kubeconfig", path)
	for _, want := range []string{"Kubernetes v1.", "NODE ", "mark: ", "foreign workloads: ", "RBAC permissions: none missing"} {
		if err != nil || !strings.Contains(out, want) {
			t.Errorf("no %q, %v in\n%s", want, err, out)
		}
	}
	if out, err := call(t, "cleanup", "--kubeconfig", path, "--run", "tare-no-such-run", "--yes"); err == nil {
		t.Errorf("removed a run that does not exist:\n%s", out)
	}
}
