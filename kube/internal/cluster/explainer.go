package cluster

import (
	"cmp"
	"context"
	"fmt"
	"regexp"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/kubernetes"

	"github.com/tare-mesh/tare/internal/base/printable"
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
	return printable.Texts(c.explainer.explain(ctx, ref, o).reasons, reason.String)
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
	if err := fromFields(fields, &s); err != nil {
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
