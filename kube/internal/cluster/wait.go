package cluster

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"

	"github.com/tare-mesh/tare/internal/base/hint"
	"github.com/tare-mesh/tare/internal/base/lists"
	"github.com/tare-mesh/tare/internal/base/wait"
)

// Times of a wait.
const (
	readyWithin = 5 * time.Minute // if the caller's context has no deadline
	resync      = 2 * time.Second // the object is read again after this time even without a watch event, and explained as often
	explainFor  = 5 * time.Second // the time to find the cause after the deadline has passed
)

// WaitReady waits until every object is ready, in order, at most until ctx's deadline (five minutes without one).
// A workload is ready with all its replicas updated and available, a pod if Ready or succeeded, and a Job with all its
// pods ready or completed. A namespace is ready if active with its default service account, a CustomResourceDefinition
// if established, and a LoadBalancer with an address. Any other kind is ready if it exists and its condition Ready or
// Available, if any, is true. report, unless nil, receives the progress and the apparent obstacle, whenever they change.
// If the wait fails, its error is a [*NotReady]. It ends before the deadline if the cause is permanent. A dry run
// records kubectl commands.
func (c *Cluster) WaitReady(ctx context.Context, report func(string), refs ...Ref) error {
	for _, ref := range refs {
		if c.DryRun() {
			c.recorder.Kubectl(append([]string{"wait", "--for", waitCondition(ref)}, kubectlArgs(ref)...)...)
			continue
		}
		if err := c.WaitFor(ctx, report, ref, nil); err != nil {
			return err
		}
		if ref.Kind.GroupKind() == KindNamespace.GroupKind() {
			// The API server refuses pods before their namespace has it.
			if err := c.WaitFor(ctx, report, Ref{KindServiceAccount, ref.Name, "default"}, nil); err != nil {
				return err
			}
		}
	}
	return nil
}

// waitCondition is the argument of kubectl wait --for that means ready.
func waitCondition(ref Ref) string {
	switch ref.Kind.GroupKind() {
	case KindDeployment.GroupKind():
		return "condition=Available"
	case KindPod.GroupKind():
		return "condition=Ready"
	case KindJob.GroupKind():
		return "jsonpath={.status.ready}"
	case KindNamespace.GroupKind():
		return "jsonpath={.status.phase}=Active"
	}
	return "create"
}

// Condition judges an object: whether the wait for it is over, and its progress ("1 of 3 answered").
type Condition func(o *unstructured.Unstructured) (ok bool, state string)

// WaitFor waits until the object exists and condition holds. If condition is nil, it waits until the object is ready
// as [Cluster.WaitReady] defines it.
func (c *Cluster) WaitFor(ctx context.Context, report func(string), ref Ref, condition Condition) error {
	ctx, cancel := WithDefaultTimeout(ctx, readyWithin)
	defer cancel()
	client, err := c.resources.client(ctx, ref)
	if err != nil {
		return fmt.Errorf("wait for %s: %w", ref, err)
	}
	w := newWait(c, client, ref, report)
	if condition != nil {
		w.judge = func(o *unstructured.Unstructured) readiness {
			if o == nil {
				return notCreated
			}
			ok, state := condition(o)
			return readiness{ok: ok, state: state}
		}
	}
	return w.run(ctx)
}

type waiter struct {
	requests requests
	client   dynamic.ResourceInterface
	ref      Ref
	doing    string                                     // "wait for pod shop/cart", in errors
	what     string                                     // "pod shop/cart", in the progress
	judge    func(*unstructured.Unstructured) readiness // of nil if the object does not exist
	explain  func(context.Context, *unstructured.Unstructured) explanation
	report   func(string)
	began    time.Time

	last      readiness
	why       explanation
	explained time.Time // when why was found
	reported  string
}

func newWait(c *Cluster, client dynamic.ResourceInterface, ref Ref, report func(string)) *waiter {
	return &waiter{requests: c.requests, client: client, ref: ref, doing: "wait for " + ref.String(), what: ref.String(), judge: readyOf,
		explain: func(ctx context.Context, o *unstructured.Unstructured) explanation {
			return c.explainer.explain(ctx, ref, o)
		}, report: report, began: time.Now()}
}

// run reads the object whenever a watch reports a change, or after resync.
func (w *waiter) run(ctx context.Context) error {
	for {
		o, err := w.read(ctx)
		switch {
		case ctx.Err() != nil:
			return w.timedOut(ctx)
		case err != nil && !IsTransient(err):
			return w.requests.explained(w.doing, err)
		case err != nil:
			w.progress(w.what + ": the API server does not answer: " + message(err))
			_ = wait.For(ctx, time.Second)
			continue
		}
		if w.last.ok {
			return nil
		}
		w.findObstacle(ctx, o)
		if w.last.failed != "" || w.why.permanent {
			return w.notReady(nil)
		}
		w.progress(w.what + w.state(true))
		w.untilChanged(ctx, o)
	}
}

// untilChanged returns when the object has changed, or after resync. It needs no permission to watch: without a watch
// it returns after resync.
func (w *waiter) untilChanged(ctx context.Context, o *unstructured.Unstructured) {
	ctx, cancel := context.WithTimeout(ctx, resync)
	defer cancel()
	options := metav1.ListOptions{FieldSelector: fields.OneTermEqualSelector("metadata.name", w.ref.Name).String()}
	if o != nil {
		options.ResourceVersion = o.GetResourceVersion()
	}
	changes, err := w.client.Watch(ctx, options)
	if err != nil {
		<-ctx.Done()
		return
	}
	defer changes.Stop()
	select {
	case <-ctx.Done():
	case _, ok := <-changes.ResultChan():
		if !ok {
			_ = wait.For(ctx, time.Second)
		}
	}
}

// findObstacle explains the object, at most once per resync to spare the API server.
func (w *waiter) findObstacle(ctx context.Context, o *unstructured.Unstructured) {
	if w.last.failed == "" && time.Since(w.began) < resync || time.Since(w.explained) < resync {
		return
	}
	w.why = w.explain(ctx, o)
	w.explained = time.Now()
}

// progress reports a line unless it repeats the last one.
func (w *waiter) progress(s string) {
	if w.report != nil && s != w.reported {
		w.report("waiting for " + s)
	}
	w.reported = s
}

// timedOut is the error after ctx has ended, by its deadline or by an interrupt.
func (w *waiter) timedOut(ctx context.Context) error {
	if errors.Is(ctx.Err(), context.Canceled) {
		return fmt.Errorf("%s%s: %w", w.doing, w.state(true), ctx.Err())
	}
	late, cancel := context.WithTimeout(context.WithoutCancel(ctx), explainFor)
	defer cancel()
	o, err := w.read(late)
	if err != nil {
		return w.requests.explained(w.doing+w.state(true), err)
	}
	if w.last.ok {
		return nil
	}
	w.why = w.explain(late, o)
	return w.notReady(ctx.Err())
}

// read returns the object, nil if it does not exist, and judges it.
func (w *waiter) read(ctx context.Context) (*unstructured.Unstructured, error) {
	ctx, cancel := context.WithTimeout(ctx, attemptTimeout)
	defer cancel()
	o, err := w.client.Get(ctx, w.ref.Name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		o, err = nil, nil
	}
	if err == nil {
		w.last = w.judge(o)
	}
	return o, err
}

func (w *waiter) notReady(cause error) error {
	e := &NotReady{Hinted: hint.Hinted{Err: cause, Text: w.why.hint()}, What: w.what + w.state(false), Waited: rounded(time.Since(w.began))}
	if w.last.failed != "" {
		e.What += ": " + w.last.failed
	}
	for _, r := range w.why.reasons {
		e.Reasons = append(e.Reasons, r.String())
	}
	return e
}

// state is the progress, as the end of a line, with the apparent obstacle if requested.
func (w *waiter) state(obstacle bool) (s string) {
	if w.last.state != "" {
		s += ": " + w.last.state
	}
	if obstacle && len(w.why.reasons) > 0 {
		s += ": " + w.why.reasons[0].text
	}
	return s
}

// NotReady is the error of an object that did not become ready, or was not deleted, in time, with the reasons.
// It wraps context.DeadlineExceeded if the time ran out.
type NotReady struct {
	hint.Hinted
	What    string // "deployment shop/cart: 1 of 3 replicas ready"
	Waited  time.Duration
	Reasons []string // most informative first, and further lines of a reason are the end of a log
}

func (e *NotReady) Error() string {
	return fmt.Sprintf("wait for %s after %s%s", e.What, e.Waited, indented(e.Reasons))
}

// indented puts each reason on lines of its own.
func indented(reasons []string) string {
	var b strings.Builder
	for _, r := range reasons {
		b.WriteString("\n  " + strings.ReplaceAll(r, "\n", "\n    "))
	}
	return b.String()
}

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
	return lists.First(conditions(o), func(c statusCondition) bool { return c.name == name })
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
