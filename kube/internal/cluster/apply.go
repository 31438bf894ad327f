package cluster

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"sigs.k8s.io/yaml"
)

// IsNotFound reports whether an object does not exist.
func IsNotFound(err error) bool { return apierrors.IsNotFound(err) }

// Apply creates or changes objects, in order, by server-side apply with [FieldManager]. Each object is labelled with
// the stamp and archived first. Fields that another manager owns are taken over. Objects may be typed or unstructured,
// and are not modified. Apply returns when the API server has accepted them, not when they are ready: see
// [Cluster.WaitReady].
func (c *Cluster) Apply(ctx context.Context, s Stamp, objects ...runtime.Object) error {
	for _, o := range objects {
		if err := c.applyOne(ctx, s, o); err != nil {
			return err
		}
	}
	return nil
}

func (c *Cluster) applyOne(ctx context.Context, s Stamp, o runtime.Object) error {
	u, err := asUnstructured(o)
	if err != nil {
		return fmt.Errorf("apply: %w", err)
	}
	ref := refOf(u)
	if s.Run == "" && s.Installed == "" {
		return fmt.Errorf("apply %s: the stamp has no run ID, so that `tare cluster cleanup` could not find it", ref)
	}
	if err := s.Mark(u); err != nil {
		return fmt.Errorf("apply: %w", err)
	}
	text, err := yaml.Marshal(u.Object)
	if err != nil {
		return fmt.Errorf("apply %s: %w", ref, err)
	}
	manifest := Manifest{Ref: ref, YAML: text}
	if s.Archive != nil {
		if err := s.Archive(manifest); err != nil {
			return fmt.Errorf("archive the manifest of %s: %w", ref, err)
		}
	}
	if c.DryRun() {
		c.recorder.Manifest(manifest, "apply", "--server-side", "--force-conflicts", "--field-manager", FieldManager, "-f", "-")
		return nil
	}
	return c.send(ctx, ref, u)
}

func (c *Cluster) send(ctx context.Context, ref Ref, u *unstructured.Unstructured) error {
	client, err := c.resources.client(ctx, ref)
	if err != nil {
		return fmt.Errorf("apply %s: %w", ref, err)
	}
	body, err := u.MarshalJSON()
	if err != nil {
		return fmt.Errorf("apply %s: %w", ref, err)
	}
	force := true
	return c.Retry(ctx, "apply "+ref.String(), func(ctx context.Context) error {
		_, err := client.Patch(ctx, ref.Name, types.ApplyPatchType, body, metav1.PatchOptions{FieldManager: FieldManager, Force: &force})
		return err
	})
}

// Get reads one object. [IsNotFound] recognises the error if it does not exist.
func (c *Cluster) Get(ctx context.Context, ref Ref) (*unstructured.Unstructured, error) {
	client, err := c.resources.client(ctx, ref)
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", ref, err)
	}
	return Retried(ctx, c, "read "+ref.String(), func(ctx context.Context) (*unstructured.Unstructured, error) {
		return client.Get(ctx, ref.Name, metav1.GetOptions{})
	})
}

// Patch changes fields of an existing object by a JSON merge patch (RFC 7386). It does not label the object: it may be
// another user's. subresource, such as status, is optional. A dry run records a kubectl command.
func (c *Cluster) Patch(ctx context.Context, ref Ref, patch []byte, subresource ...string) error {
	if c.DryRun() {
		args := []string{"patch", "--type", "merge", "--patch", string(patch)}
		for _, s := range subresource {
			args = append(args, "--subresource", s)
		}
		c.recorder.Kubectl(append(args, kubectlArgs(ref)...)...)
		return nil
	}
	client, err := c.resources.client(ctx, ref)
	if err != nil {
		return fmt.Errorf("change %s: %w", ref, err)
	}
	return c.Retry(ctx, "change "+ref.String(), func(ctx context.Context) error {
		_, err := client.Patch(ctx, ref.Name, types.MergePatchType, patch, metav1.PatchOptions{FieldManager: FieldManager}, subresource...)
		return err
	})
}

// deleteWithin bounds a deletion if the caller's context has no deadline.
const deleteWithin = 2 * time.Minute

// Delete deletes objects and waits until they and their dependents are gone, at most until ctx's deadline (two minutes
// without one). All are deleted before the first wait. Objects and kinds that do not exist are no error. report, unless
// nil, receives the progress. A [*NotReady] error lists what holds a namespace: the objects left in it, and their
// finalizers. A dry run records kubectl commands.
func (c *Cluster) Delete(ctx context.Context, report func(string), refs ...Ref) error {
	ctx, cancel := WithDefaultTimeout(ctx, deleteWithin)
	defer cancel()
	var failed []error
	var started []*waiter
	for _, ref := range refs {
		if c.DryRun() {
			c.recorder.Kubectl(append([]string{"delete", "--ignore-not-found", "--cascade", "foreground"}, kubectlArgs(ref)...)...)
			continue
		}
		w, err := c.startDeletion(ctx, report, ref)
		if err != nil {
			failed = append(failed, err)
		} else if w != nil {
			started = append(started, w)
		}
	}
	for _, w := range started {
		c.endPods(ctx, w.ref)
	}
	for _, w := range started {
		if err := w.run(ctx); err != nil {
			failed = append(failed, err)
		}
	}
	return errors.Join(failed...)
}

// startDeletion deletes an object, and returns the wait for its end: nil if it does not exist.
func (c *Cluster) startDeletion(ctx context.Context, report func(string), ref Ref) (*waiter, error) {
	client, err := c.resources.client(ctx, ref)
	if meta.IsNoMatchError(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("delete %s: %w", ref, err)
	}
	w := newWait(c, client, ref, report)
	w.doing, w.what = "delete "+ref.String(), "deletion of "+ref.String()
	var uid string // another object may get the same name afterwards
	err = c.requests.retry(ctx, w.doing, func(ctx context.Context) error {
		deleted, err := deleteOnce(ctx, client, ref.Name)
		uid = cmp.Or(deleted, uid)
		return err
	})
	if uid == "" {
		return nil, err
	}
	w.judge = func(o *unstructured.Unstructured) readiness {
		return readiness{ok: o == nil || string(o.GetUID()) != uid}
	}
	w.explain = func(ctx context.Context, o *unstructured.Unstructured) explanation {
		var kept []reason
		if ref.Kind.GroupKind() == KindNamespace.GroupKind() {
			kept = freeLost(ctx, c.typed, ref.Name)
		}
		e := c.explainer.blockers(ctx, o)
		e.reasons = append(kept, e.reasons...)
		return e
	}
	return w, err
}

// endPods ends the pods of a namespace that is being deleted, in which no others can start. Kubernetes begins to delete its objects 5 s
// later, so that this saves as long. Without permission it is not done.
func (c *Cluster) endPods(ctx context.Context, ref Ref) {
	if ref.Kind.GroupKind() == KindNamespace.GroupKind() {
		_ = c.Typed().CoreV1().Pods(ref.Name).DeleteCollection(ctx, metav1.DeleteOptions{}, metav1.ListOptions{})
	}
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

// freeLost deletes the pods of a namespace whose nodes do not answer, after their grace period: no kubelet confirms
// their end. If they still run, the kubelet ends them when it is back. It returns why pods are kept: roles of
// `tare cluster rbac --for` may not delete pods, which would permit it in every namespace.
func freeLost(ctx context.Context, client kubernetes.Interface, namespace string) []reason {
	ctx, cancel := context.WithTimeout(ctx, attemptTimeout)
	defer cancel()
	nodes, err := client.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil // blockers explains the remains
	}
	lost := map[string]bool{}
	for _, n := range nodes.Items {
		lost[n.Name] = isSilent(n)
	}
	pods := client.CoreV1().Pods(namespace)
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
