package cluster

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/client-go/dynamic"
)

// How a wait goes about it.
const (
	readyWithin = 5 * time.Minute // where the caller's context has no deadline
	resync      = 2 * time.Second // how long a watch is believed; what hinders an object is asked for as often
	explainFor  = 5 * time.Second // the time to find out why, once the deadline has passed
)

// WaitReady waits until every object is ready, in order, at most until ctx's deadline (five minutes without one).
// Ready is: a workload with all its replicas updated and available; a pod Ready or succeeded; a Job with all its pods
// ready or done; a namespace active with its default service account; a CustomResourceDefinition established; a
// LoadBalancer with an address; another kind that exists, and whose condition Ready or Available, if it has one, is true.
// report, unless nil, is told what is waited for, and what seems to hinder it, whenever that changes. The error of a wait
// in vain is a [*NotReady]; it comes before the deadline where nothing can mend it any more. In a dry run kubectl's
// command is recorded.
func (c *Cluster) WaitReady(ctx context.Context, report func(string), refs ...Ref) error {
	for _, ref := range refs {
		if err := c.waitReady(ctx, report, ref); err != nil {
			return err
		}
	}
	return nil
}

func (c *Cluster) waitReady(ctx context.Context, report func(string), ref Ref) error {
	if c.DryRun() {
		c.recorder.Add(Step{Command: c.kubectl(append([]string{"wait", "--for", waitCondition(ref)}, inNamespace(ref)...)...)})
		return nil
	}
	if err := c.WaitFor(ctx, report, ref, nil); err != nil {
		return err
	}
	if ref.Kind.GroupKind() == KindNamespace.GroupKind() {
		// Pods are refused before their namespace has it.
		return c.WaitFor(ctx, report, Ref{KindServiceAccount, ref.Name, "default"}, nil)
	}
	return nil
}

// waitCondition is what kubectl wait calls readiness.
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

// Check judges an object that is waited for: whether it is as it should be, and how far it is ("1 of 3 answered").
type Check func(o *unstructured.Unstructured) (ok bool, state string)

// WaitFor waits until check says that the object is as it should be; nil: until it is ready, as [Cluster.WaitReady]
// has it. An object that is not there is waited for.
func (c *Cluster) WaitFor(ctx context.Context, report func(string), ref Ref, check Check) error {
	judge := readyOf
	if check != nil {
		judge = func(o *unstructured.Unstructured) readiness {
			ok, state := check(o)
			return readiness{ok: ok, state: state}
		}
	}
	if _, ok := ctx.Deadline(); !ok {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, readyWithin)
		defer cancel()
	}
	client, err := c.resource(ctx, ref)
	if err != nil {
		return fmt.Errorf("wait for %s: %w", ref, err)
	}
	w := &waiting{cluster: c, client: client, ref: ref, judge: judge, report: report, began: time.Now()}
	return w.run(ctx)
}

// waiting is one wait for one object.
type waiting struct {
	cluster *Cluster
	client  dynamic.ResourceInterface
	ref     Ref
	judge   func(*unstructured.Unstructured) readiness
	report  func(string)
	began   time.Time

	last  readiness
	why   explanation
	asked time.Time // when why was found
	told  string
}

// run looks, and looks again when a watch says that something has changed, or after resync.
func (w *waiting) run(ctx context.Context) error {
	for {
		o, err := w.look(ctx)
		switch {
		case ctx.Err() != nil:
			return w.ended(ctx)
		case err != nil && !IsTransient(err):
			return w.cluster.explained("wait for "+w.ref.String(), err)
		case err != nil:
			w.tell("the API server does not answer: " + message(err))
			_ = sleep(ctx, time.Second)
			continue
		}
		if w.last.ok {
			return nil
		}
		w.explain(ctx, o)
		if w.last.failed != "" || w.why.hopeless {
			return w.notReady(nil)
		}
		w.tell(w.state(true))
		w.untilChanged(ctx, o)
	}
}

// look reads the object, nil when it is not there, and judges it.
func (w *waiting) look(ctx context.Context) (*unstructured.Unstructured, error) {
	ctx, cancel := context.WithTimeout(ctx, attemptTimeout)
	defer cancel()
	o, err := w.client.Get(ctx, w.ref.Name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		w.last = readiness{state: "not there yet"}
		return nil, nil
	}
	if err == nil {
		w.last = w.judge(o)
	}
	return o, err
}

// untilChanged returns when the object has changed, or after resync. A watch that cannot be had is no error: it is
// looked at after resync all the same.
func (w *waiting) untilChanged(ctx context.Context, o *unstructured.Unstructured) {
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
			_ = sleep(ctx, time.Second)
		}
	}
}

// explain finds out what hinders the object, seldom enough not to be a load.
func (w *waiting) explain(ctx context.Context, o *unstructured.Unstructured) {
	if w.last.failed == "" && time.Since(w.began) < resync || time.Since(w.asked) < resync {
		return
	}
	w.why = w.cluster.explain(ctx, w.ref, o)
	w.asked = time.Now()
}

// state is what is waited for, and on one line what seems to hinder it.
func (w *waiting) state(hindrance bool) string {
	s := w.ref.String()
	if w.last.state != "" {
		s += ": " + w.last.state
	}
	if hindrance && len(w.why.reasons) > 0 {
		s += ": " + w.why.reasons[0].text
	}
	return s
}

func (w *waiting) tell(s string) {
	if w.report != nil && s != w.told {
		w.report("waiting for " + s)
	}
	w.told = s
}

// ended is the error when ctx has: interrupted, or in vain.
func (w *waiting) ended(ctx context.Context) error {
	if errors.Is(ctx.Err(), context.Canceled) {
		return fmt.Errorf("wait for %s: %w", w.state(true), ctx.Err())
	}
	late, cancel := context.WithTimeout(context.WithoutCancel(ctx), explainFor)
	defer cancel()
	o, err := w.look(late)
	if err != nil {
		return w.cluster.explained("wait for "+w.state(true), err)
	}
	if w.last.ok {
		return nil
	}
	w.why = w.cluster.explain(late, w.ref, o)
	return w.notReady(ctx.Err())
}

func (w *waiting) notReady(cause error) error {
	e := &NotReady{What: w.state(false), Waited: roundly(time.Since(w.began)), err: cause, hint: w.why.hint()}
	if w.last.failed != "" {
		e.What += ": " + w.last.failed
	}
	for _, r := range w.why.reasons {
		e.Reasons = append(e.Reasons, r.String())
	}
	return e
}

// NotReady says what did not become ready, or did not go, and why. It wraps context.DeadlineExceeded where time ran out.
type NotReady struct {
	What    string        // "deployment shop/cart: 1 of 3 replicas ready"
	Waited  time.Duration //
	Reasons []string      // most telling first; a reason may have further lines, the last ones of a log
	err     error
	hint    string
}

func (e *NotReady) Error() string {
	return fmt.Sprintf("wait for %s after %s%s", e.What, e.Waited, indented(e.Reasons))
}

func (e *NotReady) Unwrap() error { return e.err }

// Hint says what the user can do.
func (e *NotReady) Hint() string { return e.hint }

// indented puts each reason on lines of its own.
func indented(reasons []string) string {
	var b strings.Builder
	for _, r := range reasons {
		b.WriteString("\n  " + strings.ReplaceAll(r, "\n", "\n    "))
	}
	return b.String()
}
