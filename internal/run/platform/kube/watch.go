package kube

import (
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// watcher holds the pods of a trial against what they were when it was up.
type watcher struct {
	up map[types.UID]map[string]container // nil: not up yet
}

// container is what a container was when the trial was up.
type container struct {
	restarts int32
	done     bool // it had ended, as init containers do
}

// add holds a pod against what it is now.
func (w watcher) add(pod *corev1.Pod) {
	w.up[pod.UID] = map[string]container{}
	for _, s := range statuses(pod) {
		w.up[pod.UID][s.Name] = container{s.RestartCount, s.State.Terminated != nil}
	}
}

// keepWatch begins to watch: from now on a pod of the trial that goes, or a container that is started again, breaks it.
func (d *deployment) keepWatch() {
	w := watcher{map[types.UID]map[string]container{}}
	for _, pod := range d.own() {
		w.add(pod)
	}
	d.mu.Lock()
	d.watcher = w
	d.mu.Unlock()
	for _, pod := range d.own() { // what happened while the table was made
		d.podChanged(pod, false)
	}
}

// podChanged is told of every change of a pod.
func (d *deployment) podChanged(pod *corev1.Pod, gone bool) {
	if !d.isOwn(pod) {
		return
	}
	name := d.podName(pod)
	d.mu.Lock()
	defer d.mu.Unlock()
	was, known := d.watcher.up[pod.UID]
	if !known || d.removed || d.broken != nil {
		return
	}
	container, why, hint := wrong(pod, gone, was)
	if why == "" {
		return
	}
	if container != "" {
		name += "/" + container
	}
	d.broken = &Error{fmt.Errorf("%s of pod %s/%s %s", name, pod.Namespace, pod.Name, why), hint}
	if pod.Labels[labelService] == loadService {
		d.abandonLoad(d.broken)
	}
}

// wrong says what became of a pod that should run on, and of which of its containers; empty: nothing.
func wrong(pod *corev1.Pod, gone bool, was map[string]container) (container, why, hint string) {
	switch {
	case pod.Status.Reason != "": // Evicted, NodeLost, …
		return "", "is gone: " + strings.TrimSuffix(pod.Status.Reason+": "+pod.Status.Message, ": "),
			"see `kubectl describe node " + pod.Spec.NodeName + "`"
	case gone || pod.DeletionTimestamp != nil:
		return "", "is gone: it was deleted", "somebody, or something in the cluster, deleted it during the trial"
	}
	for _, s := range statuses(pod) {
		before := was[s.Name]
		if s.RestartCount > before.restarts {
			why, hint = ended("was started again", s.LastTerminationState.Terminated)
		} else if s.State.Terminated != nil && !before.done {
			why, hint = ended("has ended", s.State.Terminated)
		}
		if why != "" {
			return s.Name, why, hint
		}
	}
	return "", "", ""
}

// ended says how a container did.
func ended(what string, t *corev1.ContainerStateTerminated) (why, hint string) {
	const logs = "its log is in the trial's provenance directory"
	if t == nil {
		return what, logs
	}
	why = fmt.Sprintf("%s: exit status %d", what, t.ExitCode)
	if t.ExitCode == killedStatus || t.Signal == 9 {
		why = what + ": it was killed"
	}
	if t.Reason != "" {
		why += " (" + t.Reason + ")"
	}
	if t.Reason == "OOMKilled" {
		return why, "it took more memory than its limit: let the service hold less, or say with memory how much it holds"
	}
	return why, logs
}

// killedStatus is 128 and SIGKILL, as container runtimes say it.
const killedStatus = 137

// Err implements [platform.Watcher].
func (d *deployment) Err() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.broken
}

// own are the trial's pods.
func (d *deployment) own() []*corev1.Pod {
	var pods []*corev1.Pod
	for _, pod := range d.pods.all() {
		if d.isOwn(pod) {
			pods = append(pods, pod)
		}
	}
	return pods
}
