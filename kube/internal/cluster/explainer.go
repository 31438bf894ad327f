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
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"

	"github.com/tare-mesh/tare/internal/base/lists"
)

// Limits of an explanation.
const (
	explainPods    = 50 // pods examined
	explainReasons = 6  // reasons reported
	logLines       = 5
	logBytes       = 2000
)

// explainer finds out why an object is not ready, or not deleted, from its conditions, pods, events and logs.
type explainer struct {
	typed     kubernetes.Interface
	resources *resources
}

type reason struct {
	kind string // Kubernetes' reason, such as ImagePullBackOff, Unschedulable, FailedCreate
	text string // one line
	log  []string
	// permanent reports that waiting longer cannot help.
	permanent bool
}

// certain reports whether waiting longer cannot help.
func (r reason) certain() bool { return r.permanent || permanentKinds[r.kind] }

func (r reason) String() string {
	s := r.text
	for _, line := range r.log {
		s += "\n| " + line
	}
	return s
}

// explanation is the reasons of an object, most informative first.
type explanation struct {
	reasons   []reason
	permanent bool // waiting longer cannot help
}

// hints are cures by kind of reason.
var hints = map[string]string{
	"ErrImagePull":               "is the image's name right, and can the node reach its registry? `tare cluster image load` loads tare's own image into a cluster",
	"ErrImageNeverPull":          "the image is not on the node, and its pull policy is Never: `tare cluster image load` loads tare's own image into a cluster",
	"InvalidImageName":           "the image's name is not a valid reference",
	"CrashLoopBackOff":           "the last lines of its log are shown above",
	"OOMKilled":                  "the container's memory limit is too low",
	reasonNoProgram:              "the image has no such program: is its command right, and the image?",
	"CreateContainerConfigError": "a ConfigMap or Secret that the container refers to is missing",
	"FailedMount":                "a ConfigMap, Secret or volume that the pod refers to is missing or cannot be mounted",
	"Unschedulable":              "no node takes the pod: use fewer replicas, smaller requests, or more and larger nodes",
	reasonQuota:                  "the namespace's ResourceQuota is exceeded: set smaller platform.resources, or raise it",
	reasonTooLarge:               "the namespace's ResourceQuota is smaller than one pod: set smaller platform.resources, or raise it",
	reasonUnset:                  "the namespace's ResourceQuota needs requests and limits of every pod: set them in platform.resources",
	reasonLimitRange:             "the namespace's LimitRange refuses these resources: set platform.resources within it",
	reasonStandard:               "the namespace's pod security standard refuses the pod: correct its securityContext, or use a namespace with another standard",
	reasonAdmission:              "an admission plugin of the API server refuses it, for the reason in its message",
	reasonForbidden:              HintPermissions,
	reasonInvalid:                "the API server refuses the pod. Are requests above limits? A limit below the mesh's own request needs `requests` beside `limits`",
	reasonWebhook:                "an admission webhook of the cluster refused or failed: perhaps the injector of a mesh is not ready",

	blockedByFinalizers: "the controller that set the finalizer removes it after its own clean-up; if that controller is gone, remove the finalizer with `kubectl patch … --type merge -p '{\"metadata\":{\"finalizers\":null}}'`, and run `tare cluster cleanup` again",
	blockedByDiscovery:  "an aggregated API does not answer, so the namespace's content is unknown: repair or delete that APIService (`kubectl get apiservices`), and run `tare cluster cleanup` again",
	blockedByPods:       "its pods are still stopping (terminationGracePeriodSeconds), or their node does not answer: run `tare cluster cleanup` again later",
	blockedByNode:       "they end when the node is back, or by `kubectl delete pod --force`; then run `tare cluster cleanup` again",
}

// Kinds of reasons that Kubernetes reports in messages only.
const (
	reasonQuota      = "quota"
	reasonTooLarge   = "pod above quota"
	reasonUnset      = "resources not set"
	reasonLimitRange = "limit range"
	reasonStandard   = "pod security standard"
	reasonAdmission  = "admission"
	reasonForbidden  = "forbidden"
	reasonWebhook    = "webhook"
	reasonInvalid    = "invalid"
	reasonNoImage    = "no such image"
	reasonNoProgram  = "no such program"
)

// synonyms are reasons with the same cure as one in hints.
var synonyms = map[string]string{"ImagePullBackOff": "ErrImagePull", "ImageInspectError": "ErrImagePull", reasonNoImage: "ErrImagePull", "Error": "CrashLoopBackOff"}

// permanentKinds are reasons that no waiting cures: the applied object causes them.
var permanentKinds = map[string]bool{"InvalidImageName": true, "ErrImageNeverPull": true, reasonNoImage: true, reasonNoProgram: true, reasonInvalid: true,
	reasonTooLarge: true, reasonUnset: true, reasonLimitRange: true, reasonStandard: true}

// refusals are the kinds by which an admission plugin refuses an object. The API server returns the same status for a missing permission.
var refusals = []string{reasonQuota, reasonTooLarge, reasonUnset, reasonLimitRange, reasonStandard}

// noFiles is the end of the log of a container that found no inotify instance or no file descriptor left.
const noFiles = "too many open files"

const hintFiles = "the node has no inotify instance left (fs.inotify.max_user_instances is 128 by default, and a sidecar takes about three), or the container no file: raise that setting of the node with sysctl, or use fewer pods"

func (e explanation) hint() string {
	for _, r := range e.reasons {
		if strings.Contains(strings.Join(r.log, "\n"), noFiles) {
			return hintFiles
		}
		if h := hints[r.kind]; h != "" {
			return h
		}
		if h := hints[synonyms[r.kind]]; h != "" {
			return h
		}
	}
	return ""
}

// Explain returns the reasons why an object is not ready, most informative first, or none if none is known.
// Missing permissions are among them. A reason may have further lines, the end of a log.
func (c *Cluster) Explain(ctx context.Context, ref Ref) []string {
	o, err := c.Get(ctx, ref)
	if err != nil {
		return []string{message(err)}
	}
	return lists.Map(c.explainer.explain(ctx, ref, o).reasons, reason.String)
}

// explain examines the object's conditions, its pods, and the events about them.
func (x *explainer) explain(ctx context.Context, ref Ref, o *unstructured.Unstructured) explanation {
	ctx, cancel := context.WithTimeout(ctx, explainFor)
	defer cancel()
	if o == nil {
		return explanation{}
	}
	if ref.Namespace == "" {
		return collect(conditionReasons(o))
	}
	events, eventsErr := x.events(ctx, ref.Namespace)
	pods, podsErr := x.podsOf(ctx, o)
	var found []reason
	for i := range pods {
		reasons := x.podReasons(ctx, &pods[i], events)
		if x.crashes(ctx, &pods[i]) {
			for j := range reasons {
				if cmp.Or(synonyms[reasons[j].kind], reasons[j].kind) == "CrashLoopBackOff" || reasons[j].kind == "OOMKilled" {
					reasons[j].permanent = true
				}
			}
		}
		if pods[i].DeletionTimestamp != nil { // another pod takes its place, and need not fail
			reasons = slices.DeleteFunc(reasons, func(r reason) bool { return r.certain() })
		}
		found = append(found, reasons...)
	}
	found = append(found, eventReasons(ref, events)...)
	found = append(found, conditionReasons(o)...)
	for what, err := range map[string]error{"pods": podsErr, "events": eventsErr} {
		if apierrors.IsForbidden(err) {
			found = append(found, reason{kind: reasonForbidden, text: "no permission to read " + what + ", which may show more: " + message(err)})
		}
	}
	return collect(found)
}

// collect drops repetitions, and reasons beyond explainReasons.
func collect(found []reason) (e explanation) {
	seen := map[string]int{}
	for _, r := range found {
		// Pods of one workload fail alike: one is enough.
		_, tail, ok := strings.Cut(r.text, ": ")
		if !ok {
			tail = r.text
		}
		seen[tail]++
		if seen[tail] > 1 {
			continue
		}
		e.permanent = e.permanent || r.certain()
		if len(e.reasons) < explainReasons {
			e.reasons = append(e.reasons, r)
		}
	}
	return e
}

// podsOf lists the pods of a workload, newest first, or a pod itself.
func (x *explainer) podsOf(ctx context.Context, o *unstructured.Unstructured) ([]corev1.Pod, error) {
	options := metav1.ListOptions{Limit: explainPods}
	if o.GroupVersionKind().GroupKind() == KindPod.GroupKind() {
		options.FieldSelector = "metadata.name=" + o.GetName()
	} else {
		fields, ok, err := unstructured.NestedMap(o.Object, "spec", "selector")
		if err != nil || !ok {
			return nil, nil // not a workload
		}
		selector, err := selectorOf(fields)
		if err != nil || selector == "" {
			return nil, err
		}
		options.LabelSelector = selector
	}
	list, err := x.typed.CoreV1().Pods(o.GetNamespace()).List(ctx, options)
	if err != nil {
		return nil, err
	}
	slices.SortStableFunc(list.Items, func(a, b corev1.Pod) int { return b.CreationTimestamp.Compare(a.CreationTimestamp.Time) })
	return list.Items, nil
}

// selectorOf reads a workload's selector. It is empty for a Service, whose selector is not a LabelSelector.
func selectorOf(fields map[string]any) (string, error) {
	if fields["matchLabels"] == nil && fields["matchExpressions"] == nil {
		return "", nil
	}
	var s metav1.LabelSelector
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(fields, &s); err != nil {
		return "", err
	}
	selector, err := metav1.LabelSelectorAsSelector(&s)
	if err != nil {
		return "", err
	}
	return selector.String(), nil
}

// badConditions are conditions that indicate a problem with this status.
var badConditions = map[string]string{
	"ReplicaFailure": "True", "Progressing": "False", "Failed": "True", "FailureTarget": "True", "NamesAccepted": "False",
	"Ready": "False", "Available": "False",
}

func conditionReasons(o *unstructured.Unstructured) (found []reason) {
	for _, c := range conditions(o) {
		if badConditions[c.name] != c.status || c.message == "" || c.reason == "MinimumReplicasUnavailable" || c.reason == "ContainersNotReady" {
			continue
		}
		found = append(found, reason{kind: kindOf(c.reason, c.message), text: fmt.Sprintf("condition %s: %s", c.name, c.why())})
	}
	return found
}

// kindOf distinguishes causes that Kubernetes reports under one reason, such as a controller's FailedCreate.
func kindOf(kubeReason, message string) string {
	switch {
	case strings.Contains(message, "exceeded quota") && aboveQuota(message):
		return reasonTooLarge
	case strings.Contains(message, "exceeded quota"):
		return reasonQuota
	case strings.Contains(message, "failed quota") && strings.Contains(message, "must specify"):
		return reasonUnset
	case limitRange.MatchString(message):
		return reasonLimitRange
	case strings.Contains(message, "violates PodSecurity"):
		return reasonStandard
	case strings.Contains(message, "failed calling webhook"), strings.Contains(message, "admission webhook"):
		return reasonWebhook
	case strings.Contains(message, "is forbidden: User "):
		return reasonForbidden
	case strings.Contains(message, "is forbidden:"):
		return reasonAdmission
	case kubeReason == "FailedCreate" && strings.Contains(message, " is invalid: "):
		return reasonInvalid
	}
	return kubeReason
}

// limitRange are messages of the admission plugin LimitRanger, such as "maximum cpu usage per Container is 100m, but limit is 2".
var limitRange = regexp.MustCompile(`is forbidden: .*((maximum|minimum) \S+ usage per |max limit to request ratio)`)

// Lists in a message of the admission plugin ResourceQuota: "requested: limits.cpu=2, used: limits.cpu=0, limited: limits.cpu=1".
var quotaLists = regexp.MustCompile(`requested: (.+), used: .+, limited: (.+)$`)

// aboveQuota reports whether the message of an exceeded quota has a request that is above the quota alone, whatever else runs.
func aboveQuota(message string) bool {
	lists := quotaLists.FindStringSubmatch(message)
	if lists == nil {
		return false
	}
	requested, limited := quantities(lists[1]), quantities(lists[2])
	for name, r := range requested {
		if l, ok := limited[name]; ok && r.Cmp(l) > 0 {
			return true
		}
	}
	return false
}

// quantities reads a list such as "limits.cpu=2,limits.memory=1Gi".
func quantities(list string) map[string]resource.Quantity {
	all := map[string]resource.Quantity{}
	for entry := range strings.SplitSeq(list, ",") {
		name, value, _ := strings.Cut(entry, "=")
		if q, err := resource.ParseQuantity(value); err == nil {
			all[name] = q
		}
	}
	return all
}

// Kinds of reasons why a deleted object still exists.
const (
	blockedByFinalizers = "finalizers"
	blockedByDiscovery  = "discovery"
	blockedByPods       = "pods"
	blockedByNode       = "node"
)

// namespaceConditions are the conditions by which the namespace controller explains a pending deletion, most
// informative first.
var namespaceConditions = []struct{ name, kind string }{
	{"NamespaceDeletionDiscoveryFailure", blockedByDiscovery},
	{"NamespaceDeletionGroupVersionParsingFailure", blockedByDiscovery},
	{"NamespaceFinalizersRemaining", blockedByFinalizers},
	{"NamespaceDeletionContentFailure", blockedByFinalizers},
	{"NamespaceContentRemaining", blockedByPods},
}

// blockers explains why an object that was deleted still exists.
func (x *explainer) blockers(ctx context.Context, o *unstructured.Unstructured) (e explanation) {
	ctx, cancel := context.WithTimeout(ctx, explainFor)
	defer cancel()
	own := slices.DeleteFunc(o.GetFinalizers(), func(f string) bool { return f == metav1.FinalizerDeleteDependents })
	if len(own) > 0 {
		e.reasons = append(e.reasons, reason{kind: blockedByFinalizers, text: "its own finalizers: " + strings.Join(own, ", ")})
	} else if len(o.GetFinalizers()) > 0 {
		e.reasons = append(e.reasons, reason{kind: blockedByPods, text: "its dependents still exist"})
	}
	if o.GroupVersionKind().GroupKind() != KindNamespace.GroupKind() {
		return e
	}
	for _, known := range namespaceConditions {
		if found, ok := conditionOf(o, known.name); ok && found.status == "True" {
			e.reasons = append(e.reasons, reason{kind: known.kind, text: oneLine(found.message)})
		}
	}
	remaining, err := x.withFinalizers(ctx, o.GetName())
	if err != nil {
		remaining = append(remaining, "its content cannot be listed: "+message(err))
	}
	e.reasons = append(e.reasons, lists.Map(remaining, func(text string) reason { return reason{text: text} })...)
	return e
}

// withFinalizers lists the objects of a namespace that have finalizers: "configmap shop/x, held by finalizers a/b".
func (x *explainer) withFinalizers(ctx context.Context, namespace string) (held []string, err error) {
	kinds, err := x.resources.kinds(ctx)
	for _, k := range kinds {
		if !k.namespaced {
			continue
		}
		list, listErr := x.resources.metadata.Resource(k.resource).Namespace(namespace).List(ctx, metav1.ListOptions{Limit: explainPods})
		if listErr != nil {
			continue // the namespace's own conditions name kinds that cannot be listed
		}
		for _, o := range list.Items {
			if len(o.Finalizers) > 0 {
				held = append(held, Ref{k.kind, namespace, o.Name}.String()+heldBy(o.Finalizers))
			}
		}
	}
	return held, err
}

// normalReasons are why a container waits when nothing is wrong.
var normalReasons = map[string]bool{"": true, "ContainerCreating": true, "PodInitializing": true}

// podReasons explains why a pod is not ready: by its containers, else its conditions, else the events about it.
func (x *explainer) podReasons(ctx context.Context, pod *corev1.Pod, events []corev1.Event) (found []reason) {
	// A container without a readiness probe is ready between two crashes.
	restarted := slices.ContainsFunc(pod.Status.ContainerStatuses, func(s corev1.ContainerStatus) bool { return s.RestartCount > 0 })
	if PodReady(pod) && !restarted || pod.Status.Phase == corev1.PodSucceeded {
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

// PodReady reports whether a pod's condition Ready is true.
func PodReady(pod *corev1.Pod) bool {
	return slices.ContainsFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue
	})
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
	return PodReady(pod) && slices.ContainsFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool {
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
