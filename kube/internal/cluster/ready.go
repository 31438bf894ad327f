package cluster

import (
	"cmp"
	"fmt"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// readiness is the progress of an object.
type readiness struct {
	ok     bool
	state  string // "1 of 3 replicas ready"
	failed string // why it will never be ready, empty while it may
}

// readyRules define readiness by kind. Other kinds are judged by readyByCondition.
var readyRules = map[schema.GroupKind]func(*unstructured.Unstructured) readiness{
	KindDeployment.GroupKind():  readyDeployment,
	KindStatefulSet.GroupKind(): readyStatefulSet,
	KindDaemonSet.GroupKind():   readyDaemonSet,
	KindJob.GroupKind():         readyJob,
	KindPod.GroupKind():         readyPod,
	KindNamespace.GroupKind():   readyNamespace,
	KindService.GroupKind():     readyService,
	{Group: "apiextensions.k8s.io", Kind: "CustomResourceDefinition"}: readyCRD,
}

var notCreated = readiness{state: "does not exist yet"}

func readyOf(o *unstructured.Unstructured) readiness {
	if o == nil {
		return notCreated
	}
	if rule, ok := readyRules[o.GroupVersionKind().GroupKind()]; ok {
		return rule(o)
	}
	return readyByCondition(o)
}

func readyDeployment(o *unstructured.Unstructured) readiness {
	desired := numberOrOne(o, "spec", "replicas")
	r := replicas(o, number(o, "status", "availableReplicas"), number(o, "status", "updatedReplicas"), desired)
	if old := number(o, "status", "replicas") - number(o, "status", "updatedReplicas"); r.ok && old > 0 {
		return readiness{state: fmt.Sprintf("%d replicas ready, %d old ones terminating", desired, old)}
	}
	return r
}

func readyStatefulSet(o *unstructured.Unstructured) readiness {
	updated := number(o, "status", "updatedReplicas")
	if text(o, "spec", "updateStrategy", "type") == "OnDelete" {
		updated = numberOrOne(o, "spec", "replicas")
	}
	return replicas(o, number(o, "status", "readyReplicas"), updated, numberOrOne(o, "spec", "replicas"))
}

func readyDaemonSet(o *unstructured.Unstructured) readiness {
	desired := number(o, "status", "desiredNumberScheduled")
	return replicas(o, number(o, "status", "numberAvailable"), number(o, "status", "updatedNumberScheduled"), desired)
}

func replicas(o *unstructured.Unstructured, ready, updated, desired int64) readiness {
	if !observed(o) {
		return readiness{state: "not processed by its controller yet"}
	}
	r := readiness{ok: ready >= desired && updated >= desired, state: fmt.Sprintf("%d of %d replicas ready", ready, desired)}
	if updated < desired {
		r.state += fmt.Sprintf(", %d up to date", updated)
	}
	return r
}

// observed reports whether the controller has processed the latest generation of the object.
func observed(o *unstructured.Unstructured) bool {
	return number(o, "status", "observedGeneration") >= o.GetGeneration()
}

func readyJob(o *unstructured.Unstructured) readiness {
	desired, done := numberOrOne(o, "spec", "completions"), number(o, "status", "succeeded")
	desired = min(desired, numberOrOne(o, "spec", "parallelism"))
	ready := number(o, "status", "ready") + done
	r := readiness{ok: ready >= desired, state: fmt.Sprintf("%d of %d pods ready", ready, desired)}
	if c, ok := conditionOf(o, "Failed"); ok && c.status == "True" {
		r.ok, r.failed = false, c.why()
	}
	if c, ok := conditionOf(o, "Complete"); ok && c.status == "True" {
		return readiness{ok: true, state: "complete"}
	}
	return r
}

// number reads an integer, which the API server omits if it is zero.
func number(o *unstructured.Unstructured, path ...string) int64 {
	n, _, _ := unstructured.NestedInt64(o.Object, path...)
	return n
}

// numberOrOne reads a number of replicas, whose default is one.
func numberOrOne(o *unstructured.Unstructured, path ...string) int64 {
	if n, ok, _ := unstructured.NestedInt64(o.Object, path...); ok {
		return n
	}
	return 1
}

func readyPod(o *unstructured.Unstructured) readiness {
	phase := cmp.Or(text(o, "status", "phase"), "not assigned to a node yet")
	switch phase {
	case "Succeeded":
		return readiness{ok: true, state: "succeeded"}
	case "Failed":
		return readiness{state: "failed", failed: cmp.Or(text(o, "status", "message"), text(o, "status", "reason"), "it failed")}
	}
	if c, ok := conditionOf(o, "Ready"); ok && c.status == "True" {
		return readiness{ok: true, state: "ready"}
	}
	return readiness{state: map[string]string{"Pending": "pending", "Running": "running and not ready"}[phase]}
}

func readyNamespace(o *unstructured.Unstructured) readiness {
	if phase := text(o, "status", "phase"); phase != "Active" {
		return readiness{state: "terminating"}
	}
	return readiness{ok: true, state: "active"} // WaitReady also waits for its service account
}

func readyService(o *unstructured.Unstructured) readiness {
	if text(o, "spec", "type") != "LoadBalancer" {
		return readiness{ok: true, state: "exists"}
	}
	ingress, _, _ := unstructured.NestedSlice(o.Object, "status", "loadBalancer", "ingress")
	if len(ingress) == 0 {
		return readiness{state: "no load balancer address yet"}
	}
	return readiness{ok: true, state: "has an address"}
}

func text(o *unstructured.Unstructured, path ...string) string {
	s, _, _ := unstructured.NestedString(o.Object, path...)
	return s
}

func readyCRD(o *unstructured.Unstructured) readiness {
	if c, ok := conditionOf(o, "Established"); ok && c.status == "True" {
		return readiness{ok: true, state: "established"}
	}
	if c, ok := conditionOf(o, "NamesAccepted"); ok && c.status == "False" {
		return readiness{state: c.why(), failed: c.why()}
	}
	return readiness{state: "not established yet"}
}

func readyByCondition(o *unstructured.Unstructured) readiness {
	for _, name := range []string{"Ready", "Available"} {
		if c, ok := conditionOf(o, name); ok {
			return readiness{ok: c.status == "True", state: cmp.Or(c.why(), name+" is "+c.status)}
		}
	}
	return readiness{ok: true, state: "exists"}
}

// statusCondition is one entry of status.conditions.
type statusCondition struct{ name, status, reason, message string }

func (c statusCondition) why() string {
	switch {
	case c.reason == "":
		return c.message
	case c.message == "":
		return c.reason
	}
	return c.reason + ": " + c.message
}

func conditionOf(o *unstructured.Unstructured, name string) (statusCondition, bool) {
	for _, c := range conditions(o) {
		if c.name == name {
			return c, true
		}
	}
	return statusCondition{}, false
}

func conditions(o *unstructured.Unstructured) (all []statusCondition) {
	list, _, _ := unstructured.NestedSlice(o.Object, "status", "conditions")
	for _, item := range list {
		fields, ok := item.(map[string]any)
		if !ok {
			continue
		}
		get := func(key string) string { s, _ := fields[key].(string); return s }
		all = append(all, statusCondition{get("type"), get("status"), get("reason"), get("message")})
	}
	return all
}
