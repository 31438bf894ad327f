package kubecli

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tare-mesh/tare/internal/cli/console"
	"github.com/tare-mesh/tare/internal/kube/cluster"
	"github.com/tare-mesh/tare/internal/kube/cluster/clustertest"
	"github.com/tare-mesh/tare/internal/kube/guard"
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

// On a real cluster: status describes it. Cleanup refuses a run without objects, removes those of a run whatever their
// kind, and lists them again.
func TestKubernetesClusterCommands(t *testing.T) {
	path := clusterOfTests(t)
	out, err := call(t, "cluster", "status", "--kubeconfig", path)
	for _, want := range []string{"Kubernetes v1.", "NODE ", "held by: no run", "mark: ", "foreign workloads: ", "RBAC permissions: none missing"} {
		if err != nil || !strings.Contains(out, want) {
			t.Errorf("no %q, %v in\n%s", want, err, out)
		}
	}
	if out, err := call(t, "cleanup", "--kubeconfig", path, "--run", "tare-no-such-run", "--yes"); err == nil {
		t.Errorf("removed a run that does not exist:\n%s", out)
	}
	c := clustertest.Connect(t)
	policy := &admissionv1.ValidatingAdmissionPolicy{ObjectMeta: metav1.ObjectMeta{Name: "tare-test-policy"}, Spec: admissionv1.ValidatingAdmissionPolicySpec{
		MatchConstraints: &admissionv1.MatchResources{ResourceRules: []admissionv1.NamedRuleWithOperations{{RuleWithOperations: admissionv1.RuleWithOperations{
			Operations: []admissionv1.OperationType{admissionv1.Create}, Rule: admissionv1.Rule{APIGroups: []string{"tare.test"}, APIVersions: []string{"v1"}, Resources: []string{"scales"}}}}}},
		Validations: []admissionv1.Validation{{Expression: "true"}}}}
	if err := c.Apply(clustertest.Within(t, time.Minute), cluster.Stamp{Run: "tare-test-policy", Owner: cluster.Owner{Host: "elsewhere", PID: 7}}, policy); err != nil {
		t.Fatal(err)
	}
	out, err = call(t, "cleanup", "--kubeconfig", path, "--run", "tare-test-policy", "--yes")
	if err != nil || !strings.Contains(out, "validatingadmissionpolicy tare-test-policy") || !strings.Contains(out, "no object of a removed run is left") {
		t.Errorf("%v\n%s", err, out)
	}
	ref, _ := cluster.RefOf(policy)
	if _, err := c.Get(clustertest.Within(t, time.Minute), ref); !cluster.IsNotFound(err) {
		t.Errorf("the policy still exists: %v", err)
	}
}

// disposable marks the cluster as disposable for a test.
func disposable(t *testing.T, k *cluster.Cluster) {
	t.Helper()
	g := guard.New(k)
	if _, marked, err := g.Mark(t.Context()); marked || err != nil {
		if err != nil {
			t.Fatal(err)
		}
		return
	}
	if _, err := g.Adopt(t.Context(), nil); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := g.Release(context.Background()); err != nil {
			t.Error(err)
		}
	})
}
