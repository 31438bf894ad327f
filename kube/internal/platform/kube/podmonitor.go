package kube

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"

	"github.com/tare-mesh/tare/internal/base/hint"
	"github.com/tare-mesh/tare/internal/base/lists"
	"github.com/tare-mesh/tare/internal/run/platform"
	"github.com/tare-mesh/tare/kube/internal/cluster"
)

// podMonitor reports a pod of the trial that is deleted or whose container ends or restarts.
type podMonitor struct {
	pods *trialPods
	// loadLost is called with the reason when a load worker's pod is lost.
	loadLost func(error)

	mu       sync.Mutex
	baseline map[types.UID]containerStates // the monitored pods, nil before start
	lost     error                         // why the trial can no longer be measured
	stopped  bool
}

// containerStates are the states of a pod's containers when monitoring began, by container.
type containerStates map[string]containerState

type containerState struct {
	restarts   int32
	terminated bool // as init containers are
}

// start begins to monitor the trial's present pods.
func (m *podMonitor) start() {
	m.pods.leaveOutFailed()
	baseline := map[types.UID]containerStates{}
	for _, pod := range m.pods.all() {
		baseline[pod.UID] = statesOf(pod)
	}
	m.mu.Lock()
	m.baseline = baseline
	m.mu.Unlock()
	for _, pod := range m.pods.all() { // changes while the baseline was read
		m.changed(pod, false)
	}
}

// add monitors a pod from its present state on.
func (m *podMonitor) add(pod *corev1.Pod) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.baseline[pod.UID] = statesOf(pod)
}

func statesOf(pod *corev1.Pod) containerStates {
	states := containerStates{}
	for _, s := range statuses(pod) {
		states[s.Name] = containerState{s.RestartCount, s.State.Terminated != nil}
	}
	return states
}

// forget ends the monitoring of a pod, before a fault ends it.
func (m *podMonitor) forget(pod *corev1.Pod) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.baseline, pod.UID)
}

// stop ends the monitoring of all pods, before they are deleted. It reports whether this is the first call.
func (m *podMonitor) stop() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	first := !m.stopped
	m.stopped = true
	return first
}

// changed checks a pod that appeared, changed or was deleted.
func (m *podMonitor) changed(pod *corev1.Pod, deleted bool) {
	if !m.pods.owns(pod) {
		return
	}
	name, generation := m.pods.generation(pod)
	lost := m.check(name, generation, pod, deleted)
	if lost != nil && pod.Labels[labelService] == loadService && m.loadLost != nil {
		m.loadLost(lost)
	}
}

// check compares a pod with its baseline. It returns the first reason why the trial cannot be measured, once. The error
// names the task if only a container is lost.
func (m *podMonitor) check(name string, generation int, pod *corev1.Pod, deleted bool) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	before, monitored := m.baseline[pod.UID]
	if !monitored || m.stopped || m.lost != nil {
		return nil
	}
	container, reason, advice := lossOf(pod, deleted, before)
	if reason == "" {
		return nil
	}
	if container != "" {
		name = taskID(name+"/"+container, generation)
	}
	m.lost = hint.New(advice, "%s of pod %s/%s %s", name, pod.Namespace, pod.Name, reason)
	return m.lost
}

func (m *podMonitor) Err() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.lost
}

// lossOf returns the reason why a pod or one of its containers no longer runs as before, or "".
func lossOf(pod *corev1.Pod, deleted bool, before containerStates) (container, reason, advice string) {
	switch {
	case pod.Status.Reason != "": // Evicted, NodeLost, …
		return "", "is gone: " + strings.TrimSuffix(pod.Status.Reason+": "+pod.Status.Message, ": "),
			"see `kubectl describe node " + pod.Spec.NodeName + "`"
	case deleted || pod.DeletionTimestamp != nil:
		return "", "is gone: it was deleted", "a user or a controller deleted it during the trial"
	}
	for _, s := range statuses(pod) {
		was := before[s.Name]
		if s.RestartCount > was.restarts {
			reason, advice = describeEnd("was restarted", s.LastTerminationState.Terminated)
		} else if s.State.Terminated != nil && !was.terminated {
			reason, advice = describeEnd("ended", s.State.Terminated)
		}
		if reason != "" {
			return s.Name, reason, advice
		}
	}
	return "", "", ""
}

// describeEnd adds a container's exit status and reason to event.
func describeEnd(event string, t *corev1.ContainerStateTerminated) (reason, advice string) {
	const logs = "its log is in the trial's provenance directory"
	if t == nil {
		return event, logs
	}
	reason = fmt.Sprintf("%s: exit status %d", event, t.ExitCode)
	if t.ExitCode == killedStatus || t.Signal == 9 {
		reason = event + ": it was killed"
	}
	if t.Reason != "" {
		reason += " (" + t.Reason + ")"
	}
	if t.Reason == "OOMKilled" {
		return reason, "it exceeded its memory limit: lower the service's memory, or raise platform.resources"
	}
	return reason, logs
}

// killedStatus is the exit status that container runtimes report for SIGKILL: 128 + 9.
const killedStatus = 137

// nodeMonitor reports the loss of a node that has a pod of the trial. Kubernetes keeps the pods of such a node for
// minutes, unchanged but for their readiness, so that their own state does not show it.
type nodeMonitor struct {
	*trial
	pods *trialPods
	stop func() // nil: nodes are not followed
	// forbidden reports that nodes are not followed, once in a run.
	forbidden func()

	mu   sync.Mutex
	lost error
	down map[string]bool // nodes that were not ready when the trial began
}

// nodesNotFollowed is reported if a role from before a new version of tare lacks a verb.
const nodesNotFollowed = "nodes are not followed without the permission to list and watch them: apply the role of `tare cluster rbac` again"

// start follows the nodes with a watch. Without permission to list or watch nodes it follows none.
func (m *nodeMonitor) start(ctx context.Context) error {
	if len(m.nodes) == 0 {
		return nil
	}
	nodes := m.cluster.Typed().CoreV1().Nodes()
	m.down = map[string]bool{}
	err := m.cluster.Retry(ctx, "follow nodes", func(ctx context.Context) error {
		list, err := nodes.List(ctx, metav1.ListOptions{})
		if err != nil {
			return err
		}
		for _, n := range list.Items {
			m.down[n.Name] = !cluster.IsReady(n)
		}
		// The informer would repeat a watch that is not permitted, and list all nodes each time.
		w, err := nodes.Watch(ctx, metav1.ListOptions{ResourceVersion: list.ResourceVersion})
		if err == nil {
			w.Stop()
		}
		return err
	})
	if cluster.IsForbidden(err) {
		m.forbidden()
		return nil
	}
	if err != nil {
		return err
	}
	informer := cache.NewSharedIndexInformer(listWatch(nodes), &corev1.Node{}, 0, cache.Indexers{})
	m.stop, err = follow(ctx, "nodes", informer, m.changed)
	return err
}

func (m *nodeMonitor) close() {
	if m.stop != nil {
		m.stop()
	}
}

// changed checks a node that appeared, changed or was deleted.
func (m *nodeMonitor) changed(node *corev1.Node, deleted bool) {
	if !deleted && cluster.IsReady(*node) || !m.pods.onNode(node.Name) {
		return
	}
	why := "was removed from the cluster"
	if !deleted {
		why = "is not ready" + conditionText(node)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.lost == nil {
		m.lost = hint.New("see `kubectl describe node "+node.Name+"`; the next trial uses the nodes that are left", "node %s %s", node.Name, why)
	}
}

// isDown reports whether a node was lost before the trial. Its containers cannot be read, and no load reaches them.
func (m *nodeMonitor) isDown(node string) bool { return m != nil && m.down[node] }

// conditionText is the kubelet's or the controller's reason why a node is not ready.
func conditionText(n *corev1.Node) string {
	for _, c := range n.Status.Conditions {
		if c.Type == corev1.NodeReady && c.Reason != "" {
			return ": " + c.Reason + ", " + c.Message
		}
	}
	return ""
}

func (m *nodeMonitor) Err() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.lost == nil {
		return nil
	}
	return &platform.Lost{Hinted: hint.Hinted{Err: m.lost, Text: hint.Of(m.lost)}, Code: "node-lost"}
}

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

func (v *visitors) Visitors(from, to time.Time) []platform.Visitor {
	nodes := v.nodes()
	v.mu.Lock()
	defer v.mu.Unlock()
	during := lists.Where(v.visits, func(one visit) bool {
		return slices.Contains(nodes, one.node) && one.Began.After(from) && one.Ended.Before(to)
	})
	return lists.Map(during, func(one visit) platform.Visitor { return one.Visitor })
}

// nodes are the nodes of the trial's pods.
func (v *visitors) nodes() []string {
	return lists.Map(v.pods.all(), func(pod *corev1.Pod) string { return pod.Spec.NodeName })
}
