package kube

import (
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/tare-mesh/tare/internal/base/printable"
	"github.com/tare-mesh/tare/internal/run/platform"
	"github.com/tare-mesh/tare/kube/internal/cluster"
)

// maxVisits bounds the kept visits of one trial: a pod that restarts all the time makes many.
const maxVisits = 1000

// visitors finds containers of other pods, on the nodes of the trial, that are started and ended while it runs. It
// follows the watch: no list at two moments shows them.
type visitors struct {
	pods  *trialPods
	since time.Time // containers that ended before are ignored

	mu     sync.Mutex
	known  map[containerID]*life
	visits []visit
}

type containerID struct {
	pod  types.UID
	name string
}

// life is the known lifetime of a container.
type life struct {
	starts  int32     // since the pod began
	running bool      // at the last change
	began   time.Time // the present or last process was first observed
}

// visit is one process of a container, from start to end.
type visit struct {
	platform.Visitor
	node string
}

// changed follows a pod that appeared, changed or was deleted.
func (v *visitors) changed(pod *corev1.Pod, deleted bool) {
	if v.pods.owns(pod) {
		return
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.known == nil {
		v.known = map[containerID]*life{}
	}
	now := time.Now()
	for _, s := range statuses(pod) {
		id := containerID{pod.UID, s.Name}
		l := v.known[id]
		if l == nil {
			l = &life{}
			v.known[id] = l
			if t := s.State.Terminated; t != nil && t.FinishedAt.Time.Before(v.since) {
				l.starts = starts(s)
			}
		}
		v.follow(l, pod, s, deleted, now)
		if deleted {
			delete(v.known, id)
		}
	}
}

func starts(s corev1.ContainerStatus) int32 {
	if s.State.Running != nil || s.State.Terminated != nil {
		return s.RestartCount + 1
	}
	return s.RestartCount
}

// follow updates the life of a container and keeps a process that was started and has ended.
func (v *visitors) follow(l *life, pod *corev1.Pod, s corev1.ContainerStatus, deleted bool, now time.Time) {
	running := s.State.Running != nil && !deleted
	started := starts(s) > l.starts
	if started {
		l.starts, l.began = starts(s), now
	}
	if (started || l.running) && !running && len(v.visits) < maxVisits {
		v.visits = append(v.visits, visit{platform.Visitor{Name: pod.Namespace + "/" + pod.Name + "/" + s.Name, Began: l.began, Ended: now,
			System: cluster.IsSystem(pod) || v.pods.ofOthers(pod)}, pod.Spec.NodeName})
	}
	l.running = running
}

// Visitors implements [platform.Deployment.Visitors].
func (v *visitors) Visitors(from, to time.Time) []platform.Visitor {
	nodes := v.nodes()
	v.mu.Lock()
	defer v.mu.Unlock()
	var all []platform.Visitor
	for _, one := range v.visits {
		if slices.Contains(nodes, one.node) && one.Began.After(from) && one.Ended.Before(to) {
			all = append(all, one.Visitor)
		}
	}
	return all
}

// nodes are the nodes of the trial's pods.
func (v *visitors) nodes() []string {
	return printable.Texts(v.pods.all(), func(pod *corev1.Pod) string { return pod.Spec.NodeName })
}
