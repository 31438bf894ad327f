package cluster

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// goneWithin bounds a deletion where the caller's context has no deadline.
const goneWithin = 2 * time.Minute

// Delete deletes objects and waits until they are gone, what hangs on them included, at most until ctx's deadline
// (two minutes without one). All are deleted before the first is waited for. What is not there, or is of a kind that the
// cluster does not know, is no error. report, unless nil, is told what is waited for. A namespace that does not go is
// explained: what is left in it, and whose finalizers hold it ([*NotReady]). In a dry run kubectl's command is recorded.
func (c *Cluster) Delete(ctx context.Context, report func(string), refs ...Ref) error {
	if _, ok := ctx.Deadline(); !ok {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, goneWithin)
		defer cancel()
	}
	var failed []error
	var asked []deletion
	for _, ref := range refs {
		d, err := c.ask(ctx, ref)
		if err != nil {
			failed = append(failed, err)
		} else if d.uid != "" {
			asked = append(asked, d)
		}
	}
	for _, d := range asked {
		if err := d.wait(ctx, c, report); err != nil {
			failed = append(failed, err)
		}
	}
	return errors.Join(failed...)
}

// deletion is one object that was asked to go.
type deletion struct {
	ref Ref
	uid string // one of the same name may come after it
}

// ask deletes an object; the deletion is empty where there is nothing to wait for.
func (c *Cluster) ask(ctx context.Context, ref Ref) (deletion, error) {
	if c.DryRun() {
		words := append([]string{"delete", "--ignore-not-found", "--cascade", "foreground"}, inNamespace(ref)...)
		c.recorder.Add(Step{Command: c.kubectl(words...)})
		return deletion{}, nil
	}
	client, err := c.resource(ctx, ref)
	if meta.IsNoMatchError(err) {
		return deletion{}, nil
	}
	if err != nil {
		return deletion{}, fmt.Errorf("delete %s: %w", ref, err)
	}
	foreground := metav1.DeletePropagationForeground
	d := deletion{ref: ref}
	err = c.Retry(ctx, "delete "+ref.String(), func(ctx context.Context) error {
		o, err := client.Get(ctx, ref.Name, metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			return nil
		}
		if err != nil {
			return err
		}
		uid := o.GetUID()
		err = client.Delete(ctx, ref.Name, metav1.DeleteOptions{PropagationPolicy: &foreground, Preconditions: &metav1.Preconditions{UID: &uid}})
		if apierrors.IsNotFound(err) {
			return nil
		}
		if isTerminating(err) || err == nil {
			d.uid = string(uid)
			return nil
		}
		return err
	})
	return d, err
}

// isTerminating recognises that a namespace is on its way out already.
func isTerminating(err error) bool {
	return apierrors.IsConflict(err) && strings.Contains(err.Error(), "being removed")
}

// wait returns when the object is gone, or explains why it is not.
func (d deletion) wait(ctx context.Context, c *Cluster, report func(string)) error {
	client, err := c.resource(ctx, d.ref)
	if err != nil {
		return fmt.Errorf("delete %s: %w", d.ref, err)
	}
	w := &waiting{cluster: c, client: client, ref: d.ref, report: report, began: time.Now()}
	for {
		o, err := w.lookGone(ctx, d.uid)
		switch {
		case ctx.Err() != nil:
			return d.ended(ctx, w)
		case err != nil && !IsTransient(err):
			return c.explained("delete "+d.ref.String(), err)
		case err != nil:
			w.tell(d.ref.String() + " to go: the API server does not answer: " + message(err))
			_ = sleep(ctx, time.Second)
			continue
		case o == nil:
			return nil
		}
		if time.Since(w.began) > resync && time.Since(w.asked) > resync {
			w.why, w.asked = c.held(ctx, o), time.Now()
		}
		s := d.ref.String() + " to go"
		if len(w.why.reasons) > 0 {
			s += ": " + w.why.reasons[0].text
		}
		w.tell(s)
		w.untilChanged(ctx, o)
	}
}

// lookGone reads the object, nil when it is gone or another has taken its name.
func (w *waiting) lookGone(ctx context.Context, uid string) (*unstructured.Unstructured, error) {
	ctx, cancel := context.WithTimeout(ctx, attemptTimeout)
	defer cancel()
	o, err := w.client.Get(ctx, w.ref.Name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) || err == nil && string(o.GetUID()) != uid {
		return nil, nil
	}
	return o, err
}

func (d deletion) ended(ctx context.Context, w *waiting) error {
	if errors.Is(ctx.Err(), context.Canceled) {
		return fmt.Errorf("delete %s: %w", d.ref, ctx.Err())
	}
	late, cancel := context.WithTimeout(context.WithoutCancel(ctx), explainFor)
	defer cancel()
	o, err := w.lookGone(late, d.uid)
	if err != nil {
		return w.cluster.explained("delete "+d.ref.String(), err)
	}
	if o == nil {
		return nil
	}
	why := w.cluster.held(late, o)
	e := &NotReady{What: d.ref.String() + " to go", Waited: roundly(time.Since(w.began)), err: ctx.Err(), hint: goneHints[why.kind()]}
	for _, r := range why.reasons {
		e.Reasons = append(e.Reasons, r.text)
	}
	return e
}

// Words for what holds an object that was deleted.
const (
	heldFinalizers = "finalizers"
	heldDiscovery  = "discovery"
	heldPods       = "pods"
)

var goneHints = map[string]string{
	heldFinalizers: "who put the finalizer there takes it off when it has cleaned up; if it is gone, take it off by hand with `kubectl patch … --type merge -p '{\"metadata\":{\"finalizers\":null}}'`, and run `tare cleanup` again",
	heldDiscovery:  "an aggregated API does not answer, so nobody can tell what is left: mend or delete that APIService (`kubectl get apiservices`), and run `tare cleanup` again",
	heldPods:       "its pods take their time to stop (terminationGracePeriodSeconds), or their node does not answer; run `tare cleanup` again later",
}

func (e explanation) kind() string {
	if len(e.reasons) == 0 {
		return ""
	}
	return e.reasons[0].kind
}

// namespaceConditions say what holds a namespace, most telling first. The namespace controller sets them.
var namespaceConditions = []struct{ name, kind string }{
	{"NamespaceDeletionDiscoveryFailure", heldDiscovery},
	{"NamespaceDeletionGroupVersionParsingFailure", heldDiscovery},
	{"NamespaceFinalizersRemaining", heldFinalizers},
	{"NamespaceDeletionContentFailure", heldFinalizers},
	{"NamespaceContentRemaining", heldPods},
}

// held says what holds an object that was deleted and is still there.
func (c *Cluster) held(ctx context.Context, o *unstructured.Unstructured) (e explanation) {
	ctx, cancel := context.WithTimeout(ctx, explainFor)
	defer cancel()
	own := slices.DeleteFunc(o.GetFinalizers(), func(f string) bool { return f == metav1.FinalizerDeleteDependents })
	if len(own) > 0 {
		e.reasons = append(e.reasons, reason{kind: heldFinalizers, text: "its own finalizers: " + strings.Join(own, ", ")})
	} else if len(o.GetFinalizers()) > 0 {
		e.reasons = append(e.reasons, reason{kind: heldPods, text: "what hangs on it is not gone yet"})
	}
	if o.GroupVersionKind().GroupKind() != KindNamespace.GroupKind() {
		return e
	}
	for _, known := range namespaceConditions {
		if found, ok := condition(o, known.name); ok && found.status == "True" {
			e.reasons = append(e.reasons, reason{kind: known.kind, text: oneLine(found.message)})
		}
	}
	remaining, err := c.heldIn(ctx, o.GetName())
	if err != nil {
		remaining = append(remaining, "what is left in it cannot be listed: "+message(err))
	}
	for _, r := range remaining {
		e.reasons = append(e.reasons, reason{text: r})
	}
	return e
}

// heldIn lists the objects of a namespace that finalizers hold: "configmap shop/x: held by finalizers a/b".
func (c *Cluster) heldIn(ctx context.Context, namespace string) (held []string, err error) {
	kinds, err := c.kinds(ctx)
	for _, k := range kinds {
		if !k.namespaced {
			continue
		}
		list, listErr := c.metadata.Resource(k.resource).Namespace(namespace).List(ctx, metav1.ListOptions{Limit: explainPods})
		if listErr != nil {
			continue // what cannot be listed is in the namespace's own conditions
		}
		for _, o := range list.Items {
			if len(o.Finalizers) > 0 {
				held = append(held, Ref{k.kind, namespace, o.Name}.String()+heldBy(o.Finalizers))
			}
		}
	}
	return held, err
}
