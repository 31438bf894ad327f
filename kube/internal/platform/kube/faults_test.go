package kube

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tare-mesh/tare/internal/base/wait"
	"github.com/tare-mesh/tare/internal/run/platform"
	"github.com/tare-mesh/tare/test/difftest"
	"github.com/tare-mesh/tare/test/must"
	"github.com/tare-mesh/tare/test/platformtest"
)

// A pod that a fault ends returns in its slot with the next generation, and is monitored again.
func TestPodsEndAndReturn(t *testing.T) {
	c := sharedCluster(t)
	d, err := newReal(t, c, nil).deploy(t.Context(), platformtest.Spec(t, noMesh(t), 2, "echo"))
	must.OK(t, err)
	platformtest.Removed(t, d)
	for i, grace := range []time.Duration{0, 2 * time.Second} {
		before := must.Get(d.pods.find("echo-0/app"))(t)
		must.OK(t, d.faults.End(t.Context(), "echo-0/app", grace))
		if now := d.pods.byUID(before.UID); now != nil {
			t.Errorf("pod %s remains", now.Name)
		}
		must.OK(t, d.faults.Restart(t.Context(), "echo-0/app"))
		if after, err := d.pods.find("echo-0/app"); err != nil || after.UID == before.UID {
			t.Errorf("%v", err)
		}
		task := taskOf(t, d, taskID("echo-0/app", i+2))
		if !task.Restarted {
			t.Errorf("%+v", task)
		}
		checkIntact(t, d)
	}
	kept := must.Get(d.pods.find("echo-0/app"))(t)
	must.OK(t, d.scaler.Shrink(t.Context(), "echo-1", 0))
	if v := d.faults.Victims(); len(v) != 2 {
		t.Errorf("%+v", v)
	} else if differ := difftest.Wrong("!v[0].Up", !v[0].Up, "v[1].Up", v[1].Up, `v[1].ID != "echo-1/app"`, v[1].ID != "echo-1/app"); differ != "" {
		t.Errorf("%s: %+v", differ, v)
	}
	if now, err := d.pods.find("echo-0/app"); err != nil || now.UID != kept.UID {
		t.Errorf("another pod was deleted: %v", err)
	}
	if n := replicasOf(t, d); n != 1 {
		t.Errorf("%d replicas, want 1", n)
	}
	if err := errors.Join(d.scaler.Shrink(t.Context(), "echo-1", 0), d.faults.End(t.Context(), "echo-1/app", 0)); err != nil {
		t.Errorf("a second removal: %v", err)
	}
	checkIntact(t, d)
	must.OK(t, d.scaler.Grow(t.Context(), "echo-1"))
	if n := replicasOf(t, d); n != 2 {
		t.Errorf("%d replicas, want 2", n)
	}
	taskOf(t, d, "echo-1/app.2")
	checkIntact(t, d)
	if err := d.faults.Freeze(t.Context(), "echo-0/app", true); !errors.Is(err, errors.ErrUnsupported) {
		t.Errorf("%v", err)
	}
	if err := d.faults.End(t.Context(), "echo-7/app", 0); err == nil {
		t.Error("an unknown pod was ended")
	}
	killContainer(t, c, taskOf(t, d, "echo-1/app.2"))
	err = wait.Within(t.Context(), time.Minute, pollInterval, func(context.Context) error {
		if d.monitor.Err() == nil {
			return errors.New("the loss of a replacement pod is not reported")
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
}

// checkIntact checks that no pod is lost and that the application answers.
func checkIntact(t *testing.T, d *deployment) {
	t.Helper()
	if err := d.monitor.Err(); err != nil {
		t.Error(err)
	}
	d.verifier.prober.probe = d.verifier.spec.Completed(platform.Probe{}, d.verifier.prober.entry.Entry())
	if c, err := d.verifier.checkAnswers(t.Context()); err != nil || !c.OK {
		t.Errorf("%+v, %v", c, err)
	}
}

func taskOf(t *testing.T, d *deployment, id string) platform.Task {
	t.Helper()
	tasks := must.Get(d.Tasks(t.Context()))(t)
	i := slices.IndexFunc(tasks, func(k platform.Task) bool { return k.ID == id })
	if i < 0 {
		t.Fatalf("no task %s", id)
	}
	return tasks[i]
}

func replicasOf(t *testing.T, d *deployment) int32 {
	t.Helper()
	o := must.Get(d.cluster.Typed().AppsV1().Deployments(d.namespace).Get(t.Context(), "echo", metav1.GetOptions{}))(t)
	return *o.Spec.Replicas
}
