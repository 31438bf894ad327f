package meshes

import (
	"context"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tare-mesh/tare/internal/experiment/mesh"
	"github.com/tare-mesh/tare/internal/kube/cluster"
)

// turnsOf are turns in which the small mesh can be had, for a run.
func turnsOf(t *testing.T, c *cluster.Cluster) (turns *Batches, small, none mesh.Definition, said *[]string) {
	t.Helper()
	small, err := mesh.Decode("small.yaml", []byte(smallMesh))
	if err != nil {
		t.Fatal(err)
	}
	if none, err = mesh.Load("none"); err != nil {
		t.Fatal(err)
	}
	said = &[]string{}
	charts := smallCharts(t, toolbox)
	turns = NewBatches(c, func(string) Choice { return Choice{Options: Options{Charts: charts, Run: "tare-test-turns"}} },
		func(line string) { *said = append(*said, line); t.Log(line) })
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
		defer cancel()
		if err := turns.End(ctx); err != nil {
			t.Error(err)
		}
	})
	return turns, small, none, said
}

// installedSmall is the small mesh's namespace; empty where there is none.
func installedSmall(t *testing.T, c *cluster.Cluster) types.UID {
	t.Helper()
	ns, err := c.Typed().CoreV1().Namespaces().Get(t.Context(), "tare-test-small", metav1.GetOptions{})
	if cluster.IsNotFound(err) {
		return ""
	}
	if err != nil {
		t.Fatal(err)
	}
	return ns.UID
}

// A mesh stays while trials follow that are under it, and is gone for those that are not.
func TestRealMeshesTakeTurns(t *testing.T) {
	c := connect(t)
	before := inventory(t, c)
	turns, small, none, _ := turnsOf(t, c)
	var first types.UID
	for i, d := range []mesh.Definition{none, small, small} {
		if err := turns.Ready(bounded(t, 2*time.Minute), d); err != nil {
			t.Fatal(err)
		}
		switch uid := installedSmall(t, c); i {
		case 0:
			if uid != "" {
				t.Fatal("a mesh is there that nobody asked for")
			}
		case 1:
			first = uid
		default:
			if uid == "" || uid != first {
				t.Errorf("namespace %q is not the one that the trial before had, %q", uid, first)
			}
		}
	}
	// Every trial keeps what was installed, the second as well.
	for range 2 {
		archive := kept{}
		if err := turns.Archive(bounded(t, time.Minute), "default", archive.keep); err != nil || archive["chart-small.yaml"] == nil || archive["images.json"] == nil {
			t.Errorf("%d files, %v", len(archive), err)
		}
	}
	if err := turns.Ready(bounded(t, 2*time.Minute), none); err != nil {
		t.Fatal(err)
	}
	sameInventory(t, c, before)
}

// What a run that died had installed is taken out by the next; what somebody installed for good is used and stays, and is
// in the way of every other mesh.
func TestRealMeshesThatWereThere(t *testing.T) {
	c := connect(t)
	dead, small, none, _ := turnsOf(t, c)
	if err := dead.Ready(bounded(t, 2*time.Minute), small); err != nil {
		t.Fatal(err)
	}
	left := installedSmall(t, c)
	owner := cluster.ThisProcess()
	owner.Start-- // another process had this number
	text, err := json.Marshal(owner)
	if err != nil {
		t.Fatal(err)
	}
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"annotations": map[string]string{cluster.AnnotationOwner: string(text)}}})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.Typed().CoreV1().Namespaces().Patch(t.Context(), "tare-test-small", types.MergePatchType, patch, metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	next, _, _, said := turnsOf(t, c)
	if err := next.Possible(t.Context(), []string{"none", small.Name}); err != nil {
		t.Errorf("what a dead run left is in the way: %v", err)
	}
	if err := next.Ready(bounded(t, 3*time.Minute), small); err != nil {
		t.Fatal(err)
	}
	if uid := installedSmall(t, c); uid == "" || uid == left || !strings.Contains(strings.Join(*said, "\n"), "which run tare-test-turns had left") {
		t.Errorf("namespace %q, that of the dead run was %q; said: %q", uid, left, *said)
	}
	// To other turns what now stands is no leftover: its process lives.
	other, _, _, _ := turnsOf(t, c)
	for what, err := range map[string]error{
		"ready":    other.Ready(bounded(t, time.Minute), none),
		"possible": other.Possible(t.Context(), []string{"none"}),
	} {
		if err == nil || !strings.Contains(err.Error(), "would be measured with none") {
			t.Errorf("%s: %v", what, err)
		}
	}
	stands := installedSmall(t, c)
	if err := other.Ready(bounded(t, time.Minute), small); err != nil {
		t.Fatal(err)
	}
	if err := other.End(bounded(t, time.Minute)); err != nil || installedSmall(t, c) != stands {
		t.Errorf("what was there before was taken out: %v", err)
	}
	dead.now = nil // it is dead
}
