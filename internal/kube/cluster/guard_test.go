package cluster

import (
	"encoding/json"
	"errors"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"
)

// parsed reads a YAML stream.
func parsed(t *testing.T, stream string) (all []*unstructured.Unstructured) {
	t.Helper()
	for _, doc := range strings.Split(stream, "\n---\n") {
		o := &unstructured.Unstructured{}
		if err := yaml.UnmarshalStrict([]byte(doc), &o.Object); err != nil {
			t.Fatalf("%v in\n%s", err, doc)
		}
		all = append(all, o)
	}
	return all
}

func TestGuardRefusesAndAdopts(t *testing.T) {
	c := connect(t)
	marks, _ := space(t, c)
	c.guardNamespace = marks // the cluster's own mark is others'
	ctx := within(t, 2*time.Minute)

	// A namespace and a pod that somebody else made.
	foreign := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: marks + "-foreign"}}
	if _, err := c.Typed().CoreV1().Namespaces().Create(ctx, foreign, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := c.Delete(within(t, time.Minute), nil, Ref{Kind: KindNamespace, Name: foreign.Name}); err != nil {
			t.Error(err)
		}
	}()
	if err := c.WaitReady(ctx, nil, Ref{Kind: KindNamespace, Name: foreign.Name}); err != nil {
		t.Fatal(err)
	}
	shop := echo(foreign.Name, nil)
	if _, err := c.Typed().AppsV1().Deployments(foreign.Name).Create(ctx, shop, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	ref, _ := RefOf(shop)
	if err := c.WaitReady(ctx, nil, ref); err != nil {
		t.Fatal(err)
	}
	refused := c.Guard(ctx)
	if !errors.Is(refused, ErrInUse) {
		t.Fatalf("%v", refused)
	}
	says(t, refused.Error()+"\n"+hintOf(refused), "not marked as disposable", "deployment "+foreign.Name+"/echo", "tare cluster adopt", "platform.inUse: allow")

	all, err := c.Foreign(ctx)
	if err != nil {
		t.Fatal(err)
	}
	mine := Workload{Namespace: foreign.Name, Kind: "Deployment", Name: "echo"}
	if !slices.ContainsFunc(all, mine.same) {
		t.Errorf("foreign: %v", all)
	}
	for _, w := range all {
		if w.Namespace == systemNamespace {
			t.Errorf("the system's own: %s", w)
		}
	}
	// Adopted as it was before the shop came: the shop is named.
	others := slices.DeleteFunc(slices.Clone(all), mine.same)
	if _, err := c.Adopt(ctx, others); err != nil {
		t.Fatal(err)
	}
	err = c.Guard(ctx)
	var inUse *InUse
	if !errors.As(err, &inUse) || !inUse.Marked || !slices.ContainsFunc(inUse.Workloads, mine.same) {
		t.Errorf("came later: %v", err)
	}
	if _, err := c.Adopt(ctx, all); err != nil {
		t.Fatal(err)
	}
	if err := c.Guard(ctx); errors.As(err, &inUse) && slices.ContainsFunc(inUse.Workloads, mine.same) {
		t.Errorf("adopted: %v", err)
	}
	if err := c.Release(ctx); err != nil {
		t.Fatal(err)
	}
	if _, marked, err := c.Mark(ctx); marked || err != nil {
		t.Errorf("released: %v, %v", marked, err)
	}
}

func TestSweepSparesTheLiving(t *testing.T) {
	c := connect(t)
	ended := exec.Command("true")
	if err := ended.Run(); err != nil {
		t.Fatal(err)
	}
	living, _ := space(t, c)
	dead, elsewhere := ThisProcess(), ThisProcess()
	dead.PID = ended.Process.Pid
	elsewhere.Host = "another"
	ctx := within(t, 2*time.Minute)
	put := func(suffix string, owner Owner) Ref {
		name := living + suffix
		ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}
		role := &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: name}}
		if err := c.Apply(ctx, Stamp{Run: name, Owner: owner}, ns, role); err != nil {
			t.Fatal(err)
		}
		return Ref{Kind: KindNamespace, Name: name}
	}
	gone, spared := put("-dead", dead), put("-else", elsewhere)
	swept, err := c.SweepDead(ctx, func(s string) { t.Log(s) })
	if err != nil {
		t.Fatal(err)
	}
	i := slices.IndexFunc(swept, func(l Leftover) bool { return l.Run == gone.Name })
	if i < 0 || len(swept[i].Objects) != 2 {
		text, _ := json.Marshal(swept)
		t.Errorf("swept %s", text)
	}
	role := Ref{rbacv1.SchemeGroupVersion.WithKind("ClusterRole"), "", gone.Name}
	for _, ref := range []Ref{gone, role} {
		if _, err := c.Get(ctx, ref); !IsNotFound(err) {
			t.Errorf("%s after sweeping: %v", ref, err)
		}
	}
	for _, ref := range []Ref{spared, {Kind: KindNamespace, Name: living}} {
		if _, err := c.Get(ctx, ref); err != nil {
			t.Errorf("%s was to be spared: %v", ref, err)
		}
	}
	left, err := c.Leftovers(ctx)
	if err != nil {
		t.Fatal(err)
	}
	for _, l := range left {
		if l.Run == spared.Name {
			if l.State() != Elsewhere {
				t.Errorf("%s is %s", l.Run, l.State())
			}
			if err := c.Sweep(ctx, nil, l); err != nil {
				t.Error(err)
			}
		}
	}
	if _, err := c.Get(ctx, spared); !IsNotFound(err) {
		t.Errorf("after it was named: %v", err)
	}
}

func TestDryRunTouchesNothing(t *testing.T) {
	var r Recorder
	c, err := Connect(t.Context(), Options{Context: "prod", Kubeconfig: "/no/such/file", Recorder: &r})
	if err != nil {
		t.Fatal(err)
	}
	d := echo("shop", nil)
	ref, _ := RefOf(d)
	ctx := t.Context()
	if err := errors.Join(c.Guard(ctx), c.Apply(ctx, Stamp{Run: "r1"}, d), c.WaitReady(ctx, nil, ref), c.Delete(ctx, nil, ref)); err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	if _, err := r.WriteTo(&b); err != nil {
		t.Fatal(err)
	}
	says(t, b.String(), "---\n# $ kubectl --context prod apply --server-side --force-conflicts --field-manager tare -f -\n", "tare.dev/run: r1",
		"# $ kubectl --context prod wait --for condition=Available -n shop deployment.apps/echo\n",
		"# $ kubectl --context prod delete --ignore-not-found --cascade foreground -n shop deployment.apps/echo\n")
	if _, err := c.Version(ctx); !errors.Is(err, errors.ErrUnsupported) {
		t.Errorf("asked in a dry run: %v", err)
	}
	if err := c.Apply(ctx, Stamp{}, d); err == nil {
		t.Error("applied what could not be swept")
	}
}
