package kube

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"

	"github.com/tare-mesh/tare/test/must"
)

func podIn(namespace, name string, state corev1.ContainerState, restarts int32) *corev1.Pod {
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, UID: types.UID(name)}, Spec: corev1.PodSpec{NodeName: "n1"},
		Status: corev1.PodStatus{ContainerStatuses: []corev1.ContainerStatus{{Name: "c", State: state, RestartCount: restarts}}}}
}

// Containers of others that are started and ended between two moments are found, whichever of their states the watch
// shows. Those that one of the two lists has are not.
func TestVisitors(t *testing.T) {
	running := corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}
	waiting := corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{}}
	ended := corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{FinishedAt: metav1.NewTime(time.Now().Add(time.Hour))}}
	longAgo := corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{FinishedAt: metav1.NewTime(time.Now().Add(-time.Hour))}}
	store := cache.NewIndexer(cache.MetaNamespaceKeyFunc, cache.Indexers{})
	own := podIn("trial", "own", running, 0)
	must.OK(t, store.Add(own))
	pods := &trialPods{trial: &trial{options: &Options{}, namespace: "trial"}, store: &podStore{informer: fixedInformer{store: store}}}
	v := &visitors{pods: pods, since: time.Now()}
	// Before the phase.
	v.changed(podIn("shop", "stays", running, 0), false)
	v.changed(podIn("shop", "leaves", running, 0), false)
	v.changed(podIn("shop", "done", longAgo, 0), false)
	v.changed(podIn("shop", "loops", waiting, 4), false)
	v.changed(podIn("shop", "late", waiting, 0), false)
	from := time.Now()
	time.Sleep(time.Millisecond) // so that the times differ
	v.changed(podIn("shop", "leaves", running, 0), true)
	v.changed(podIn("shop", "job", waiting, 0), false)
	v.changed(podIn("shop", "job", running, 0), false)
	v.changed(podIn("shop", "job", ended, 0), false)
	v.changed(podIn("shop", "job", ended, 0), false) // an update without a change
	v.changed(podIn("shop", "late", ended, 0), false)
	v.changed(podIn("shop", "deleted", running, 0), false)
	v.changed(podIn("shop", "deleted", running, 0), true)
	v.changed(podIn("shop", "loops", waiting, 5), false) // the watch did not show that it ran
	v.changed(podIn("kube-system", "cron", ended, 0), false)
	v.changed(podIn("shop", "remains", running, 0), false)
	v.changed(podIn("trial", "own", running, 0), true)
	far := podIn("shop", "far", ended, 0)
	far.Spec.NodeName = "n2"
	v.changed(far, false)
	time.Sleep(time.Millisecond)
	to := time.Now()
	var names []string
	for _, one := range v.Visitors(from, to) {
		names = append(names, one.Name)
		if !one.System || one.Ended.Before(one.Began) {
			t.Errorf("%+v", one)
		}
	}
	const want = "shop/job/c shop/late/c shop/deleted/c shop/loops/c kube-system/cron/c"
	if got := strings.Join(names, " "); got != want {
		t.Errorf("%s, want %s", got, want)
	}
	if all := v.Visitors(to, to.Add(time.Hour)); len(all) > 0 {
		t.Errorf("later: %+v", all)
	}
}

// fixedInformer has pods that do not change.
type fixedInformer struct {
	cache.SharedIndexInformer
	store cache.Store
}

func (f fixedInformer) GetStore() cache.Store { return f.store }
