package kube

import (
	"fmt"
	"strings"
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/tare-mesh/tare/internal/base/hint"
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

// Err implements [platform.Deployment.Broken].
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
