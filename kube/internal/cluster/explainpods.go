package cluster

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

func fromFields(fields map[string]any, into any) error {
	return runtime.DefaultUnstructuredConverter.FromUnstructured(fields, into)
}

// normalReasons are why a container waits when nothing is wrong.
var normalReasons = map[string]bool{"": true, "ContainerCreating": true, "PodInitializing": true}

// podReasons explains why a pod is not ready: by its containers, else its conditions, else the events about it.
func (x *explainer) podReasons(ctx context.Context, pod *corev1.Pod, events []corev1.Event) (found []reason) {
	// A container without a readiness probe is ready between two crashes.
	restarted := slices.ContainsFunc(pod.Status.ContainerStatuses, func(s corev1.ContainerStatus) bool { return s.RestartCount > 0 })
	if podReady(pod) && !restarted || pod.Status.Phase == corev1.PodSucceeded {
		return nil
	}
	name := "pod " + pod.Name
	for _, s := range slices.Concat(pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses) {
		if r, ok := containerReason(s); ok {
			r.text = name + ": container " + s.Name + ": " + r.text
			if s.RestartCount > 0 || s.State.Terminated != nil {
				r.log = x.lastLines(ctx, pod, s)
			}
			found = append(found, r)
		}
	}
	for _, condition := range pod.Status.Conditions {
		if condition.Type == corev1.PodScheduled && condition.Status == corev1.ConditionFalse {
			found = append(found, reason{kind: condition.Reason, text: fmt.Sprintf("%s: %s: %s", name, condition.Reason, oneLine(condition.Message))})
		}
	}
	if pod.Status.Phase == corev1.PodFailed && pod.Status.Reason != "" {
		found = append(found, reason{kind: pod.Status.Reason, text: fmt.Sprintf("%s: %s: %s", name, pod.Status.Reason, oneLine(pod.Status.Message))})
	}
	if len(found) > 0 {
		return found
	}
	ref := Ref{KindPod, pod.Namespace, pod.Name}
	found = eventReasons(ref, events)
	if pod.DeletionTimestamp != nil {
		found = append(found, reason{kind: "Terminating", text: name + ": terminating" + heldBy(pod.Finalizers)})
	}
	return found
}

func podReady(pod *corev1.Pod) bool {
	for _, condition := range pod.Status.Conditions {
		if condition.Type == corev1.PodReady {
			return condition.Status == corev1.ConditionTrue
		}
	}
	return false
}

// Restarts of a container that crashes.
const (
	fewRestarts  = 2 // a crash for the third time is certain if all that it may need was ready
	manyRestarts = 5 // certain in any case: minutes have passed
)

// crashes reports whether a container of the pod crashes and waiting cannot help. One that needs another pod crashes until
// that is ready, so that its last start must be later.
func (x *explainer) crashes(ctx context.Context, pod *corev1.Pod) bool {
	var started time.Time
	for _, s := range pod.Status.ContainerStatuses {
		last := s.LastTerminationState.Terminated
		if s.RestartCount == 0 && !s.Ready {
			return false // it may need this container, such as its sidecar
		}
		if last == nil || s.RestartCount < fewRestarts {
			continue
		}
		if s.RestartCount >= manyRestarts {
			return true
		}
		if last.StartedAt.After(started) {
			started = last.StartedAt.Time
		}
	}
	if started.IsZero() {
		return false
	}
	list, err := x.typed.CoreV1().Pods(pod.Namespace).List(ctx, metav1.ListOptions{Limit: explainPods})
	if err != nil || list.Continue != "" {
		return false
	}
	return !slices.ContainsFunc(list.Items, func(other corev1.Pod) bool {
		if controller, its := metav1.GetControllerOf(pod), metav1.GetControllerOf(&other); other.Name == pod.Name || controller != nil && its != nil && controller.UID == its.UID {
			return false
		}
		return !readySince(&other, started)
	})
}

// readySince reports whether a pod was ready at a time and is, or has succeeded.
func readySince(pod *corev1.Pod, at time.Time) bool {
	if pod.Status.Phase == corev1.PodSucceeded {
		return true
	}
	return podReady(pod) && slices.ContainsFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.PodReady && !c.LastTransitionTime.After(at)
	})
}

// containerReason explains a failed container. The event of a failed probe explains one that runs and is not ready.
func containerReason(s corev1.ContainerStatus) (reason, bool) {
	if w := s.State.Waiting; w != nil && !normalReasons[w.Reason] {
		r := reason{kind: w.Reason, text: joined(w.Reason, oneLine(w.Message))}
		if noImage.MatchString(w.Message) || w.Reason == "ImagePullBackOff" && noName.MatchString(w.Message) {
			r.kind = reasonNoImage
		}
		if t := s.LastTerminationState.Terminated; t != nil {
			r.text = w.Reason + ": " + ending(t) + restarts(s)
			r.kind = cmp.Or(endingKind(t), r.kind)
		}
		return r, true
	}
	if t := s.State.Terminated; t != nil && t.ExitCode != 0 {
		return reason{kind: cmp.Or(endingKind(t), t.Reason), text: ending(t) + restarts(s)}, true
	}
	if t := s.LastTerminationState.Terminated; t != nil && s.State.Running != nil {
		return reason{kind: cmp.Or(endingKind(t), "CrashLoopBackOff"), text: "restarted after: " + ending(t) + restarts(s)}, true
	}
	return reason{}, false
}

// noImage and noProgram are messages of causes that waiting does not cure. The messages of a registry that does not answer
// differ. noName is of a registry whose name does not resolve, which counts from the second attempt.
var (
	noName    = regexp.MustCompile(`(?i)pull.*: lookup \S+`)
	noImage   = regexp.MustCompile(`(?i)pull.*(: not found|manifest unknown|repository does not exist|denied|no such host)`)
	noProgram = regexp.MustCompile(`executable file not found|exec: .*no such file or directory|exec: .*permission denied`)
)

// endingKind is the kind of reason of an ended container that its end shows, or "".
func endingKind(t *corev1.ContainerStateTerminated) string {
	switch {
	case t.Reason == "OOMKilled":
		return t.Reason
	case noProgram.MatchString(t.Message):
		return reasonNoProgram
	}
	return ""
}

// ending describes how a container ended: "exited with code 3 (Error)".
func ending(t *corev1.ContainerStateTerminated) string {
	s := fmt.Sprintf("exited with code %d", t.ExitCode)
	if t.Signal != 0 {
		s = fmt.Sprintf("killed by signal %d", t.Signal)
	}
	if t.Reason != "" {
		s += " (" + t.Reason + ")"
	}
	return joined(s, oneLine(t.Message))
}

func restarts(s corev1.ContainerStatus) string {
	switch s.RestartCount {
	case 0:
		return ""
	case 1:
		return ", restarted once"
	}
	return fmt.Sprintf(", restarted %d times", s.RestartCount)
}

// lastLines is the end of the failed container's log, empty if it cannot be read.
func (x *explainer) lastLines(ctx context.Context, pod *corev1.Pod, s corev1.ContainerStatus) []string {
	lines, limit := int64(logLines), int64(logBytes)
	options := &corev1.PodLogOptions{Container: s.Name, TailLines: &lines, LimitBytes: &limit, Previous: s.State.Running != nil}
	body, err := x.typed.CoreV1().Pods(pod.Namespace).GetLogs(pod.Name, options).Stream(ctx)
	if err != nil {
		return nil
	}
	defer body.Close()
	b, err := io.ReadAll(io.LimitReader(body, logBytes))
	if err != nil || len(b) == 0 {
		return nil
	}
	return strings.Split(strings.TrimRight(string(b), "\n"), "\n")
}

// events are the warnings of a namespace, newest first.
func (x *explainer) events(ctx context.Context, namespace string) ([]corev1.Event, error) {
	list, err := x.typed.CoreV1().Events(namespace).List(ctx, metav1.ListOptions{FieldSelector: "type=" + corev1.EventTypeWarning})
	if err != nil {
		return nil, err
	}
	slices.SortStableFunc(list.Items, func(a, b corev1.Event) int { return eventTime(b).Compare(eventTime(a).Time) })
	return list.Items, nil
}

func eventTime(e corev1.Event) metav1.Time {
	switch {
	case e.Series != nil:
		return metav1.NewTime(e.Series.LastObservedTime.Time)
	case !e.LastTimestamp.IsZero():
		return e.LastTimestamp
	case !e.EventTime.IsZero():
		return metav1.NewTime(e.EventTime.Time)
	}
	return e.CreationTimestamp
}

// ignoredEvents are warnings that outlive their cause, and whose cause container states or conditions show better.
var ignoredEvents = map[string]bool{"FailedScheduling": true, "BackOff": true, "Failed": true, "FailedGetScale": true}

// eventReasons are the warnings about an object, or about its controller's objects (a Deployment's ReplicaSet).
// Of repetitions only the newest counts.
func eventReasons(ref Ref, events []corev1.Event) (found []reason) {
	seen := map[string]bool{}
	for _, e := range events {
		about := e.InvolvedObject
		controlled := ref.Kind.Kind == KindDeployment.Kind && about.Kind == "ReplicaSet" && strings.HasPrefix(about.Name, ref.Name+"-")
		if !controlled && (about.Kind != ref.Kind.Kind || about.Name != ref.Name) || ignoredEvents[e.Reason] || seen[about.Name+e.Reason] {
			continue
		}
		seen[about.Name+e.Reason] = true
		found = append(found, reason{
			kind: kindOf(e.Reason, e.Message),
			text: fmt.Sprintf("%s %s: %s: %s", strings.ToLower(about.Kind), about.Name, e.Reason, oneLine(withoutPodName(e.Message))),
		})
	}
	return found
}

// podNameInEvent is the generated name of a pod that could not be created, which differs at every attempt.
var podNameInEvent = regexp.MustCompile(`^(?:\(combined from similar events\): )?Error creating: (?:pods|Pod) "[^"]*" `)

// withoutPodName is an event's message without the pod's generated name.
func withoutPodName(message string) string {
	return podNameInEvent.ReplaceAllString(message, "Error creating: a pod ")
}

// oneLine is a message on one line, truncated.
func oneLine(s string) string {
	const limit = 400
	s = strings.Join(strings.Fields(s), " ")
	if len(s) > limit {
		s = strings.ToValidUTF8(s[:limit], "") + "…"
	}
	return s
}

func joined(a, b string) string {
	if a == "" || b == "" {
		return a + b
	}
	return a + ": " + b
}

func heldBy(finalizers []string) string {
	if len(finalizers) == 0 {
		return ""
	}
	return ", held by finalizers " + strings.Join(finalizers, ", ")
}
