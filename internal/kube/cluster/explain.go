package cluster

import (
	"context"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// Bounds of an explanation: what a person reads.
const (
	explainPods    = 50 // looked at
	explainReasons = 6  // told
	logLines       = 5
	logBytes       = 2000
)

// reason is one thing that keeps an object from being ready.
type reason struct {
	kind string // Kubernetes' word: ImagePullBackOff, Unschedulable, FailedCreate
	text string // one line
	log  []string
}

func (r reason) String() string {
	s := r.text
	for _, line := range r.log {
		s += "\n| " + line
	}
	return s
}

// explanation is what hinders an object, most telling first.
type explanation struct {
	reasons  []reason
	hopeless bool // waiting longer cannot help
}

// hints say what the user can do, by Kubernetes' word for what is wrong.
var hints = map[string]string{
	"ErrImagePull":               "is the image's name right, and can the node reach its registry? `tare image load` puts tare's own image into a cluster",
	"ErrImageNeverPull":          "the image is not on the node, which may not pull it: `tare image load` puts tare's own image into a cluster",
	"InvalidImageName":           "the image's name is not a valid reference",
	"CrashLoopBackOff":           "the last lines of its log are shown above",
	"OOMKilled":                  "its memory limit is too low for it",
	"CreateContainerConfigError": "a ConfigMap or Secret that the container names is missing",
	"FailedMount":                "a ConfigMap, Secret or volume that the pod names is missing or cannot be mounted",
	"Unschedulable":              "no node takes the pod: fewer replicas, smaller requests, or more and larger nodes",
	reasonQuota:                  "the namespace's ResourceQuota does not allow for it: ask for less, or raise it",
	reasonForbidden:              "`tare cluster rbac` prints the rights that tare needs, for whoever may grant them",
	reasonWebhook:                "an admission webhook of the cluster stands in the way: a mesh's injector that is not ready, perhaps",
}

// Words of our own for what Kubernetes tells in a message only.
const (
	reasonQuota     = "quota"
	reasonForbidden = "forbidden"
	reasonWebhook   = "webhook"
)

// same are Kubernetes' other words for what hints know.
var same = map[string]string{"ImagePullBackOff": "ErrImagePull", "ImageInspectError": "ErrImagePull", "Error": "CrashLoopBackOff"}

// hopelessKinds are those that no waiting mends: they follow from what was applied.
var hopelessKinds = map[string]bool{"InvalidImageName": true, "ErrImageNeverPull": true}

func (e explanation) hint() string {
	for _, r := range e.reasons {
		if h := hints[r.kind]; h != "" {
			return h
		}
		if h := hints[same[r.kind]]; h != "" {
			return h
		}
	}
	return ""
}

// Explain says what keeps an object from being ready, most telling first; nothing where nothing is known. What could
// not be asked for is said too. A reason may have further lines, the last ones of a log.
func (c *Cluster) Explain(ctx context.Context, ref Ref) []string {
	o, err := c.Get(ctx, ref)
	if err != nil {
		return []string{message(err)}
	}
	var all []string
	for _, r := range c.explain(ctx, ref, o).reasons {
		all = append(all, r.String())
	}
	return all
}

// explain looks at the object's conditions, its pods, and the events about any of them.
func (c *Cluster) explain(ctx context.Context, ref Ref, o *unstructured.Unstructured) explanation {
	ctx, cancel := context.WithTimeout(ctx, explainFor)
	defer cancel()
	if o == nil {
		return explanation{}
	}
	if ref.Namespace == "" {
		return collect(conditionReasons(o))
	}
	events, eventsErr := c.events(ctx, ref.Namespace)
	pods, podsErr := c.podsOf(ctx, o)
	var found []reason
	for i := range pods {
		found = append(found, c.podReasons(ctx, &pods[i], events)...)
	}
	found = append(found, eventReasons(ref, events)...)
	found = append(found, conditionReasons(o)...)
	for what, err := range map[string]error{"pods": podsErr, "events": eventsErr} {
		if apierrors.IsForbidden(err) {
			found = append(found, reason{kind: reasonForbidden, text: what + " cannot be read, there may be more to say: " + message(err)})
		}
	}
	return collect(found)
}

// collect drops repetitions, and what is beyond a person's patience.
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
		e.hopeless = e.hopeless || hopelessKinds[r.kind]
		if len(e.reasons) < explainReasons {
			e.reasons = append(e.reasons, r)
		}
	}
	return e
}

// podsOf lists the pods of a workload, newest first, or a pod itself.
func (c *Cluster) podsOf(ctx context.Context, o *unstructured.Unstructured) ([]corev1.Pod, error) {
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
	list, err := c.typed.CoreV1().Pods(o.GetNamespace()).List(ctx, options)
	if err != nil {
		return nil, err
	}
	slices.SortStableFunc(list.Items, func(a, b corev1.Pod) int { return b.CreationTimestamp.Compare(a.CreationTimestamp.Time) })
	return list.Items, nil
}

// selectorOf reads a workload's selector; empty for a Service's, which is no LabelSelector.
func selectorOf(fields map[string]any) (string, error) {
	if fields["matchLabels"] == nil && fields["matchExpressions"] == nil {
		return "", nil
	}
	var s metav1.LabelSelector
	if err := fromFields(fields, &s); err != nil {
		return "", err
	}
	selector, err := metav1.LabelSelectorAsSelector(&s)
	if err != nil {
		return "", err
	}
	return selector.String(), nil
}

// badConditions are conditions that say something when they have this status.
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

// kindOf tells apart what Kubernetes gives one word: a controller's FailedCreate has many causes.
func kindOf(word, message string) string {
	switch {
	case strings.Contains(message, "exceeded quota"):
		return reasonQuota
	case strings.Contains(message, "failed calling webhook"), strings.Contains(message, "admission webhook"):
		return reasonWebhook
	case strings.Contains(message, "is forbidden:"):
		return reasonForbidden
	}
	return word
}
