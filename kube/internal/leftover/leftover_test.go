package leftover

import (
	"encoding/json"
	"os/exec"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/tare-mesh/tare/kube/internal/cluster"
	"github.com/tare-mesh/tare/kube/test/clustertest"
	"github.com/tare-mesh/tare/test/must"
)

func TestRealDeleteDead(t *testing.T) {
	c := clustertest.Connect(t)
	ended := exec.Command("true")
	must.OK(t, ended.Run())
	living, _ := clustertest.Namespace(t, c)
	dead, elsewhere := cluster.ThisProcess(), cluster.ThisProcess()
	dead.PID = ended.Process.Pid
	elsewhere.Host = "another"
	ctx := clustertest.Within(t, 2*time.Minute)
	put := func(suffix string, owner cluster.Owner) cluster.Ref {
		name := living + suffix
		ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}
		role := &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: name}}
		must.OK(t, c.Apply(ctx, cluster.Stamp{Run: name, Owner: owner}, ns, role))
		return cluster.Ref{Kind: cluster.KindNamespace, Name: name}
	}
	gone, kept := put("-dead", dead), put("-elsewhere", elsewhere)
	deleted := must.Get(DeleteDead(ctx, c, "", func(s string) { t.Log(s) }))(t)
	i := slices.IndexFunc(deleted, func(r Run) bool { return r.ID == gone.Name })
	if i < 0 || len(deleted[i].Objects) != 2 {
		text, _ := json.Marshal(deleted)
		t.Errorf("deleted runs: %s", text)
	}
	role := cluster.Ref{Kind: rbacv1.SchemeGroupVersion.WithKind("ClusterRole"), Name: gone.Name}
	for _, ref := range []cluster.Ref{gone, role} {
		if _, err := c.Get(ctx, ref); !cluster.IsNotFound(err) {
			t.Errorf("%s still exists: %v", ref, err)
		}
	}
	for _, ref := range []cluster.Ref{kept, {Kind: cluster.KindNamespace, Name: living}} {
		if _, err := c.Get(ctx, ref); err != nil {
			t.Errorf("%s: %v", ref, err)
		}
	}
	left := must.Get(Find(ctx, c, ""))(t)
	for _, l := range left {
		if l.ID == kept.Name {
			if l.State() != cluster.Elsewhere {
				t.Errorf("%s is %s", l.ID, l.State())
			}
			if err := Delete(ctx, c, nil, l); err != nil {
				t.Error(err)
			}
		}
	}
	if _, err := c.Get(ctx, kept); !cluster.IsNotFound(err) {
		t.Errorf("after its deletion: %v", err)
	}
}

// Objects in a run's own namespace and objects with an owner reference are deleted with those.
func TestByRun(t *testing.T) {
	object := func(kind, namespace, name, run string, owner cluster.Owner) cluster.Object {
		text := must.Get(json.Marshal(owner))(t)
		return cluster.Object{Ref: cluster.Ref{Kind: schema.GroupVersionKind{Version: "v1", Kind: kind}, Namespace: namespace, Name: name},
			Labels: map[string]string{cluster.LabelRun: run}, Annotations: map[string]string{cluster.AnnotationOwner: string(text)}}
	}
	alive, dead := cluster.ThisProcess(), cluster.ThisProcess()
	dead.Start--
	owned := object("ConfigMap", "shared", "owned", "a", dead)
	owned.Owned = true
	runs := byRun([]cluster.Object{
		object("ConfigMap", "a-1", "inside", "a", dead), object("ConfigMap", "shared", "beside", "a", alive), owned,
		object("ClusterRole", "", "role", "a", dead), object("Namespace", "", "a-1", "a", dead), object("Secret", "shared", "s", "b", dead),
	})
	var got []string
	for _, r := range runs {
		for _, o := range r.Objects {
			got = append(got, r.ID+" "+string(r.State())+" "+o.String())
		}
	}
	// One owner of run a is alive, so all of it is.
	want := []string{"a alive namespace a-1", "a alive clusterrole role", "a alive configmap shared/beside", "b dead secret shared/s"}
	if !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}
