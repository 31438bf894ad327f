package cluster

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/dynamic"

	"github.com/tare-mesh/tare/internal/base/hint"
	"github.com/tare-mesh/tare/internal/base/wait"
)

// deleteWithin bounds a deletion if the caller's context has no deadline.
const deleteWithin = 2 * time.Minute

// Delete deletes objects and waits until they and their dependents are gone, at most until ctx's deadline (two minutes
// without one). All are deleted before the first wait. Objects and kinds that do not exist are no error. report, unless
// nil, receives the progress. A [*NotReady] error lists what holds a namespace: the objects left in it, and their
// finalizers. A dry run records kubectl commands.
func (c *Cluster) Delete(ctx context.Context, report func(string), refs ...Ref) error {
	ctx, cancel := withDefaultTimeout(ctx, deleteWithin)
	defer cancel()
	var failed []error
	var started []*deletion
	for _, ref := range refs {
		if c.DryRun() {
			c.recorder.Kubectl(append([]string{"delete", "--ignore-not-found", "--cascade", "foreground"}, kubectlArgs(ref)...)...)
			continue
		}
		d := &deletion{waiter: newWait(c, nil, ref, report), cluster: c}
		exists, err := d.start(ctx, c.resources)
		if err != nil {
			failed = append(failed, err)
		} else if exists {
			started = append(started, d)
		}
	}
	for _, d := range started {
		if err := d.run(ctx); err != nil {
			failed = append(failed, err)
		}
	}
	return errors.Join(failed...)
}

// deletion is one object that is being deleted.
type deletion struct {
	*waiter
	cluster *Cluster
	uid     string // another object may get the same name afterwards
}

// start deletes the object, and returns false if it does not exist.
func (d *deletion) start(ctx context.Context, r *resources) (exists bool, err error) {
	d.client, err = r.client(ctx, d.ref)
	if meta.IsNoMatchError(err) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("delete %s: %w", d.ref, err)
	}
	err = r.requests.retry(ctx, "delete "+d.ref.String(), func(ctx context.Context) error {
		uid, err := deleteOnce(ctx, d.client, d.ref.Name)
		if uid != "" {
			d.uid = uid
		}
		return err
	})
	return d.uid != "", err
}

// deleteOnce deletes an object and returns its UID, empty if it does not exist.
func deleteOnce(ctx context.Context, client dynamic.ResourceInterface, name string) (string, error) {
	o, err := client.Get(ctx, name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return "", nil
	}
	if err != nil {
		return "", err
	}
	foreground := metav1.DeletePropagationForeground
	uid := o.GetUID()
	err = client.Delete(ctx, name, metav1.DeleteOptions{PropagationPolicy: &foreground, Preconditions: &metav1.Preconditions{UID: &uid}})
	switch {
	case apierrors.IsNotFound(err):
		return "", nil
	case err == nil || isTerminating(err):
		return string(uid), nil
	}
	return "", err
}

// isTerminating reports whether a namespace is being deleted already.
func isTerminating(err error) bool {
	return apierrors.IsConflict(err) && strings.Contains(err.Error(), "being removed")
}

// run returns when the object is gone, or explains why it is not.
func (d *deletion) run(ctx context.Context) error {
	for {
		o, err := d.read(ctx)
		switch {
		case ctx.Err() != nil:
			return d.timedOut(ctx)
		case err != nil && !IsTransient(err):
			return d.requests.explained("delete "+d.ref.String(), err)
		case err != nil:
			d.progress("deletion of " + d.ref.String() + ": the API server does not answer: " + message(err))
			_ = wait.For(ctx, time.Second)
			continue
		case o == nil:
			return nil
		}
		if time.Since(d.began) > resync && time.Since(d.explained) > resync {
			d.why, d.explained = d.explain(ctx, o), time.Now()
		}
		s := "deletion of " + d.ref.String()
		if len(d.why.reasons) > 0 {
			s += ": " + d.why.reasons[0].text
		}
		d.progress(s)
		d.untilChanged(ctx, o)
	}
}

func (d *deletion) timedOut(ctx context.Context) error {
	if errors.Is(ctx.Err(), context.Canceled) {
		return fmt.Errorf("delete %s: %w", d.ref, ctx.Err())
	}
	late, cancel := context.WithTimeout(context.WithoutCancel(ctx), explainFor)
	defer cancel()
	o, err := d.read(late)
	if err != nil {
		return d.requests.explained("delete "+d.ref.String(), err)
	}
	if o == nil {
		return nil
	}
	why := d.explain(late, o)
	e := &NotReady{Hinted: hint.Hinted{Err: ctx.Err(), Text: blockerHints[why.kind()]}, What: "deletion of " + d.ref.String(), Waited: rounded(time.Since(d.began))}
	for _, r := range why.reasons {
		e.Reasons = append(e.Reasons, r.text)
	}
	return e
}

// explain frees pods of lost nodes, and returns why the object still exists.
func (d *deletion) explain(ctx context.Context, o *unstructured.Unstructured) explanation {
	kept := d.freeLost(ctx)
	e := d.explainer.blockers(ctx, o)
	e.reasons = append(kept, e.reasons...)
	return e
}

// freeLost deletes the pods of a namespace whose nodes do not answer, after their grace period: no kubelet confirms
// their end. If they still run, the kubelet ends them when it is back. It returns why pods are kept: roles of
// `tare cluster rbac --for` may not delete pods, which would permit it in every namespace.
func (d *deletion) freeLost(ctx context.Context) (kept []reason) {
	if d.ref.Kind.GroupKind() != KindNamespace.GroupKind() {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, attemptTimeout)
	defer cancel()
	nodes, err := d.cluster.typed.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil // blockers explains the remains
	}
	lost := map[string]bool{}
	for _, n := range nodes.Items {
		lost[n.Name] = isSilent(n)
	}
	pods := d.cluster.typed.CoreV1().Pods(d.ref.Name)
	list, err := pods.List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil
	}
	for _, p := range list.Items {
		// deletionTimestamp is the end of the grace period.
		if p.DeletionTimestamp == nil || p.DeletionTimestamp.After(time.Now()) || !lost[p.Spec.NodeName] {
			continue
		}
		err := pods.Delete(ctx, p.Name, metav1.DeleteOptions{GracePeriodSeconds: new(int64(0)), Preconditions: &metav1.Preconditions{UID: &p.UID}})
		if IsForbidden(err) {
			return []reason{{kind: blockedByNode, text: fmt.Sprintf("node %s does not answer, and the permission to delete its pods (%s) is missing", p.Spec.NodeName, p.Name)}}
		}
	}
	return nil
}

// read returns the object, nil when it is gone or another has its name.
func (d *deletion) read(ctx context.Context) (*unstructured.Unstructured, error) {
	ctx, cancel := context.WithTimeout(ctx, attemptTimeout)
	defer cancel()
	o, err := d.client.Get(ctx, d.ref.Name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) || err == nil && string(o.GetUID()) != d.uid {
		return nil, nil
	}
	return o, err
}
