package kube

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"

	"github.com/tare-mesh/tare/internal/base/hint"
	"github.com/tare-mesh/tare/test/must"
)

// monitored are pods of services s and load in namespace "n", under a started monitor.
func monitored(t *testing.T, loadLost func(error), pods ...*corev1.Pod) *podMonitor {
	t.Helper()
	store := cache.NewSharedIndexInformer(nil, &corev1.Pod{}, 0, cache.Indexers{})
	for _, pod := range pods {
		must.OK(t, store.GetStore().Add(pod))
	}
	trial := &trial{options: &Options{}, namespace: "n"}
	m := &podMonitor{pods: &trialPods{trial: trial, store: &podStore{informer: store}}, loadLost: loadLost}
	m.start()
	return m
}

func podOf(namespace, name, service string) *corev1.Pod {
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, UID: types.UID(name), Labels: map[string]string{labelService: service}}}
}

// The first lost pod of the trial is reported. Pods of others, new pods, and pods that a fault ends are not.
func TestPodMonitor(t *testing.T) {
	a, b, foreign := podOf("n", "a", "s"), podOf("n", "b", "s"), podOf("other", "c", "s")
	m := monitored(t, func(err error) { t.Errorf("the load is lost: %v", err) }, a, b, foreign)
	m.changed(foreign, true)
	m.changed(podOf("n", "later", "s"), true)
	m.forget(a)
	m.changed(a, true)
	must.OK(t, m.Err())
	m.add(a)
	m.changed(b, true)
	m.changed(a, true)
	if err := m.Err(); err == nil || !strings.HasPrefix(err.Error(), "s-1 of pod n/b is gone") || hint.Of(err) == "" {
		t.Errorf("%v", err)
	}
}

// A pod that failed before the trial, such as an evicted one of an application in place, is none of its pods.
func TestPodMonitorLeavesOutFailed(t *testing.T) {
	old, a := podOf("n", "evicted", "s"), podOf("n", "z", "s")
	old.Status.Phase, old.Status.Reason = corev1.PodFailed, "Evicted"
	m := monitored(t, nil, old, a)
	must.OK(t, m.Err())
	if pods := m.pods.ofService("s"); len(pods) != 1 || m.pods.name(pods[0]) != "s-0" {
		t.Errorf("%d pods", len(pods))
	}
	a.Status.Phase, a.Status.Reason = corev1.PodFailed, "Evicted" // during the trial
	m.changed(a, false)
	must.Fail(t, m.Err(), "is gone: Evicted")
}

// A lost load worker ends the load with the reason. During removal no pod is lost.
func TestPodMonitorLoad(t *testing.T) {
	load := podOf("n", "load-x", loadService)
	var lost error
	m := monitored(t, func(err error) { lost = err }, load)
	m.changed(load, true)
	if lost == nil || lost != m.Err() {
		t.Errorf("the load ends with %v, the monitor reports %v", lost, m.Err())
	}
	m = monitored(t, func(err error) { t.Errorf("the load is lost: %v", err) }, load)
	if first, second := m.stop(), m.stop(); !first || second {
		t.Errorf("stop: %v, %v", first, second)
	}
	m.changed(load, true)
	if err := m.Err(); err != nil {
		t.Error(err)
	}
}

// A lost container is named by its task ID, which has the generation of its pod.
func TestPodMonitorNamesTheTask(t *testing.T) {
	first, second := podOf("n", "a", "s"), podOf("n", "b", "s")
	m := monitored(t, nil, first)
	m.forget(first)
	m.pods.slots.vacate("s", first.Name, false)
	m.changed(second, false) // takes the slot
	m.add(second)
	second.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "app", State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: 137}}}}
	m.changed(second, false)
	if err := m.Err(); err == nil || !strings.HasPrefix(err.Error(), "s-0/app.2 of pod n/b ended: it was killed") {
		t.Errorf("%v", err)
	}
}
