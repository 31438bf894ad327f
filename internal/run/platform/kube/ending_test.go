package kube

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tare-mesh/tare/internal/experiment"
	"github.com/tare-mesh/tare/internal/run/platform"
	"github.com/tare-mesh/tare/internal/run/platform/platformtest"
)

// Every kind of fault is either to be had or refused with a reason of its own.
func TestCanInject(t *testing.T) {
	for _, k := range experiment.FaultKinds() {
		err := CanInject(experiment.Fault{Kind: k.Name})
		if slices.Contains(Faults(), k.Name) != (err == nil) {
			t.Errorf("%s: %v", k.Name, err)
		}
		if err == nil {
			continue
		}
		want := map[bool]string{true: noNetwork, false: noSignals}[k.Network]
		if hinted, ok := errors.AsType[*Error](err); !ok || hinted.Hint() == "" || !errors.Is(err, errors.ErrUnsupported) || !strings.HasSuffix(err.Error(), want) {
			t.Errorf("%s: %v, want %q", k.Name, err, want)
		}
	}
	sidecar := experiment.Fault{Kind: "kill", Target: experiment.FaultTarget{Plane: "data"}}
	if err := CanInject(sidecar); !errors.Is(err, errors.ErrUnsupported) || !strings.Contains(err.Error(), noPart) {
		t.Errorf("a sidecar alone: %v", err)
	}
}

// A pod takes the seat of one that was ended, and no other.
func TestSeats(t *testing.T) {
	d := &deployment{seats: map[string][]*seat{}}
	for i, c := range []struct {
		pod          string
		vacate, away int // the seat that is given up first; -1: none
		number, life int
	}{
		{"a", -1, -1, 0, 1}, {"b", -1, -1, 1, 1}, {"a", -1, -1, 0, 1},
		{"c", 1, -1, 1, 2}, {"b", -1, -1, 1, 1}, {"d", 1, -1, 1, 3},
		{"e", -1, 0, 2, 1}, // that of a was taken away
	} {
		if c.vacate >= 0 {
			d.seats["s"][c.vacate].vacant = true
		}
		if c.away >= 0 {
			d.seats["s"][c.away].vacant, d.seats["s"][c.away].away = true, true
		}
		if number, life := d.seated("s", c.pod); number != c.number || life != c.life {
			t.Errorf("%d: pod %s has number %d in life %d, want %d and %d", i, c.pod, number, life, c.number, c.life)
		}
	}
	d.seats["s"][0].away = false
	if number, life := d.seated("s", "f"); number != 0 || life != 2 {
		t.Errorf("number %d, life %d", number, life)
	}
}

// What a fault ends goes and comes back, at its number and in another life; what goes after that is seen again.
func TestPodsEndAndReturn(t *testing.T) {
	c := realCluster(t)
	d, err := newReal(t, c, nil).deploy(t.Context(), platformtest.Spec(t, none(t), 2, "echo"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := d.Remove(t.Context()); err != nil {
			t.Error(err)
		}
	})
	for life, grace := range []time.Duration{0, 2 * time.Second} {
		before, err := d.find("echo-0/app")
		if err != nil {
			t.Fatal(err)
		}
		if err := d.End(t.Context(), "echo-0/app", grace); err != nil {
			t.Fatal(err)
		}
		if now := d.pod(before.UID); now != nil {
			t.Errorf("pod %s is there", now.Name)
		}
		if err := d.Restart(t.Context(), "echo-0/app"); err != nil {
			t.Fatal(err)
		}
		if after, err := d.find("echo-0/app"); err != nil || after.UID == before.UID {
			t.Errorf("%v", err)
		}
		task := taskOf(t, d, lived("echo-0/app", life+2))
		if !task.Restarted {
			t.Errorf("%+v", task)
		}
		untouched(t, d)
	}
	kept, err := d.find("echo-0/app")
	if err != nil {
		t.Fatal(err)
	}
	if err := d.Shrink(t.Context(), "echo-1", 0); err != nil {
		t.Fatal(err)
	}
	if v := d.Victims(); len(v) != 2 || !v[0].Up || v[1].Up || v[1].ID != "echo-1/app" {
		t.Errorf("%+v", v)
	}
	if now, err := d.find("echo-0/app"); err != nil || now.UID != kept.UID {
		t.Errorf("another pod went: %v", err)
	}
	if n := replicasOf(t, d); n != 1 {
		t.Errorf("%d replicas, want 1", n)
	}
	if err := errors.Join(d.Shrink(t.Context(), "echo-1", 0), d.End(t.Context(), "echo-1/app", 0)); err != nil {
		t.Errorf("what has gone: %v", err)
	}
	untouched(t, d)
	if err := d.Grow(t.Context(), "echo-1"); err != nil {
		t.Fatal(err)
	}
	if n := replicasOf(t, d); n != 2 {
		t.Errorf("%d replicas, want 2", n)
	}
	taskOf(t, d, "echo-1/app.2")
	untouched(t, d)
	if err := d.Freeze(t.Context(), "echo-0/app", true); !errors.Is(err, errors.ErrUnsupported) {
		t.Errorf("%v", err)
	}
	if err := d.End(t.Context(), "echo-7/app", 0); err == nil {
		t.Error("what is not there was ended")
	}
	killContainer(t, c, taskOf(t, d, "echo-1/app.2"))
	if err := until(t.Context(), time.Minute, func() bool { return d.Err() != nil }); err != nil {
		t.Errorf("a pod that came back and died is not missed: %v", err)
	}
}

// untouched holds that the deployment can be measured and answers.
func untouched(t *testing.T, d *deployment) {
	t.Helper()
	if err := d.Err(); err != nil {
		t.Error(err)
	}
	if c, err := d.probe(t.Context()); err != nil || !c.OK {
		t.Errorf("%+v, %v", c, err)
	}
}

func taskOf(t *testing.T, d *deployment, id string) platform.Task {
	t.Helper()
	tasks, err := d.Tasks(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	i := slices.IndexFunc(tasks, func(k platform.Task) bool { return k.ID == id })
	if i < 0 {
		t.Fatalf("there is no %s", id)
	}
	return tasks[i]
}

func replicasOf(t *testing.T, d *deployment) int32 {
	t.Helper()
	o, err := d.cluster.Typed().AppsV1().Deployments(d.namespace).Get(t.Context(), "echo", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return *o.Spec.Replicas
}
