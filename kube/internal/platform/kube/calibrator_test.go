package kube

import (
	"errors"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"

	"github.com/tare-mesh/tare/internal/base/probe"
	"github.com/tare-mesh/tare/test/must"
)

// The readings of several nodes merge into one over all their CPUs. Readings of different work are an error.
func TestMergeReadings(t *testing.T) {
	now := time.Now()
	a := probe.Reading{Work: "w", At: now, Took: 2, CPUs: []probe.Processor{{CPU: 0, Pieces: 10, NS: 10_000}, {CPU: 1, Pieces: 10, NS: 20_000}}}
	b := probe.Reading{Work: "w", At: now.Add(-1), Took: 3, CPUs: []probe.Processor{{CPU: 0, Pieces: 10, NS: 60_000}}}
	r, err := mergeReadings([]string{"n1", "n2"}, []probe.Reading{a, b})
	if us, ok := r.Microseconds(); err != nil || !ok || us != 3 || !r.At.Equal(b.At) || r.Took != 3 || len(r.CPUs) != 3 || r.CPUs[0].Node != "n1" || r.CPUs[2].Node != "n2" {
		t.Errorf("%+v, %v", r, err)
	}
	if a.CPUs[0].Node != "" {
		t.Error("a reading of one node was changed")
	}
	b.Work = "other"
	must.Fail(t, must.Err(mergeReadings([]string{"n1", "n2"}, []probe.Reading{a, b})), "n2", "different work")
}

// A pod of the application runs the probe on its node, else a load worker. Nodes without the application are left out. A node
// with neither is an error.
func TestReaders(t *testing.T) {
	d := dryRunDeployment(t, 3, "", noMesh(t), "echo")
	store := cache.NewSharedIndexInformer(nil, &corev1.Pod{}, 0, cache.Indexers{})
	d.pods.store, d.workers.workers = &podStore{informer: store}, []*loadWorker{{pod: "load-a"}, {pod: "load-b"}}
	add := func(name, service, node string, ready corev1.ConditionStatus) {
		t.Helper()
		must.OK(t, store.GetStore().Add(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: d.namespace, Name: name, Labels: map[string]string{labelService: service}},
			Spec: corev1.PodSpec{NodeName: node}, Status: corev1.PodStatus{Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: ready}}}}))
	}
	add("echo-1", "echo", "n1", corev1.ConditionTrue)
	add("echo-2", "echo", "n1", corev1.ConditionTrue)
	add("echo-3", "echo", "n2", corev1.ConditionFalse)
	add("load-a", loadService, "n2", corev1.ConditionTrue)
	add("load-b", loadService, "n3", corev1.ConditionTrue)
	readers, err := d.calibrator.readers()
	if err != nil || len(readers) != 2 || readers["n1"] == nil || readers["n2"] == nil {
		t.Fatalf("%d nodes have a reader, %v; want n1 and n2", len(readers), err)
	}
	add("echo-4", "echo", "n4", corev1.ConditionFalse)
	if _, err := d.calibrator.readers(); !errors.Is(err, errors.ErrUnsupported) || !strings.Contains(err.Error(), "n4") {
		t.Errorf("a node without a reader: %v", err)
	}
}
