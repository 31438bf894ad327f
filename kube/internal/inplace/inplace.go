package inplace

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/tare-mesh/tare/internal/base/hint"
	"github.com/tare-mesh/tare/internal/base/lists"
	"github.com/tare-mesh/tare/internal/base/wait"
	"github.com/tare-mesh/tare/internal/experiment/manifest"
	"github.com/tare-mesh/tare/internal/experiment/mesh"
	"github.com/tare-mesh/tare/kube/internal/cluster"
)

// restartableKinds are the workloads whose controllers replace pods when their template changes.
var restartableKinds = []string{cluster.KindDeployment.Kind, cluster.KindStatefulSet.Kind, cluster.KindDaemonSet.Kind}

const (
	// endPause is the pause between two checks for pods that are ending.
	endPause = 500 * time.Millisecond
	// endWithin bounds the wait for them after an application was put back: a finalizer, or a node that is gone, can keep
	// one for ever.
	endWithin = 2 * time.Minute
)

// errNotEnding: a pod is still ending after the time for it.
var errNotEnding = errors.New("does not end")

// Application is a running application that is changed in place.
type Application struct {
	cluster *cluster.Cluster
	state   state
}

// Report receives what happens, and nil functions discard it.
type Report struct {
	Notice   func(string) // a value that is put back or stays, once
	Progress func(string) // of a wait, often
}

// Begin stores the values that change, and marks the namespace. An ended attempt is put back first.
// workloads get podMarks by [Application.Restart]. Nothing is changed if the application cannot be restarted.
func Begin(ctx context.Context, c *cluster.Cluster, s cluster.Stamp, namespace string, workloads []cluster.Ref, marks, podMarks mesh.Marks, report Report) (*Application, error) {
	a := &Application{cluster: c, state: state{Namespace: namespace}}
	if manifest.IsSystemNamespace(namespace) {
		return nil, fmt.Errorf("namespace %s is one of the cluster's own: %w in place", namespace, errors.ErrUnsupported)
	}
	if err := Restore(ctx, c, namespace, report); err != nil {
		return nil, err
	}
	if err := a.add(ctx, changed{Ref: cluster.Ref{Kind: cluster.KindNamespace, Name: namespace}}, marks); err != nil {
		return nil, err
	}
	if all := a.state.Objects[0].Changes; len(all) > 0 && !slices.ContainsFunc(all, func(x change) bool { return x.Before == nil || *x.Before != x.Value }) {
		return nil, hint.New("remove it from the mesh first, so that trials without the mesh are a baseline", "namespace %s is in the mesh already: label %s=%s", namespace, all[0].Name, all[0].Value)
	}
	// The same value in all trials of a run, so that a treatment has one revision in the rollout history, not one a trial.
	restarted := map[string]string{annotationRestarted: s.Run}
	for _, ref := range workloads {
		annotations := cluster.Merged(podMarks.Annotations, restarted)
		if err := a.add(ctx, changed{Ref: ref, Pods: true}, mesh.Marks{Labels: podMarks.Labels, Annotations: annotations}); err != nil {
			return nil, err
		}
	}
	if !a.state.own(namespace) {
		return nil, hint.New("measure a copy (without inPlace)", "the mesh labels namespace %s for pod security: %w in place", namespace, errors.ErrUnsupported)
	}
	stored, err := a.state.configMap()
	if err != nil {
		return nil, err
	}
	if err := c.Apply(ctx, s, stored); err != nil {
		return nil, err
	}
	return a, a.set(ctx, a.state.Objects[0])
}

// add reads an object and adds the changes that marks make.
func (a *Application) add(ctx context.Context, x changed, m mesh.Marks) error {
	before := func(string, string) *string { return nil }
	if !a.cluster.DryRun() {
		o, err := a.cluster.Get(ctx, x.Ref)
		if err != nil {
			return err
		}
		if x.Pods {
			if err := restartable(o); err != nil {
				return err
			}
		}
		before = func(field, name string) *string { return x.value(o, field, name) }
	}
	x.Changes = changesOf(m, before)
	a.state.Objects = append(a.state.Objects, x)
	return nil
}

// restartable refuses a workload whose pods are not replaced when its template changes.
func restartable(o *unstructured.Unstructured) error {
	name := o.GetKind() + " " + o.GetName()
	strategy, _, _ := unstructured.NestedString(o.Object, "spec", "updateStrategy", "type")
	partition, _, _ := unstructured.NestedInt64(o.Object, "spec", "updateStrategy", "rollingUpdate", "partition")
	paused, _, _ := unstructured.NestedBool(o.Object, "spec", "paused")
	switch {
	case !slices.Contains(restartableKinds, o.GetKind()):
		return hint.New("measure a copy (without inPlace)", "%s has no controller that replaces pods: %w in place", name, errors.ErrUnsupported)
	case strategy == "OnDelete":
		return hint.New("use updateStrategy RollingUpdate, or measure a copy (without inPlace)", "%s replaces pods only when they are deleted (updateStrategy OnDelete)", name)
	case partition > 0:
		return hint.New("set the partition to 0, or measure a copy (without inPlace)", "%s replaces only some pods (partition %d)", name, partition)
	case paused:
		return hint.New("`kubectl rollout resume` continues it", "the rollout of %s is paused", name)
	}
	return nil
}

// Restart marks the pod templates, and waits until each workload has only new, ready pods.
func (a *Application) Restart(ctx context.Context, report func(string)) error {
	for _, x := range a.state.Objects[1:] {
		if err := a.set(ctx, x); err != nil {
			return err
		}
	}
	return a.state.settled(ctx, a.cluster, 0, report)
}

// set makes the changes of one object.
func (a *Application) set(ctx context.Context, x changed) error {
	if len(x.Changes) == 0 {
		return nil
	}
	patch, err := x.patch(x.Changes, func(c change) *string { return &c.Value })
	if err != nil {
		return err
	}
	return a.cluster.Patch(ctx, x.Ref, patch)
}

// Restore puts the application back.
func (a *Application) Restore(ctx context.Context, report Report) error {
	if !a.cluster.DryRun() {
		return Restore(ctx, a.cluster, a.state.Namespace, report)
	}
	for _, x := range a.state.Objects {
		patch, err := x.patch(x.Changes, func(c change) *string { return c.Before })
		if err != nil {
			return err
		}
		if len(x.Changes) > 0 {
			if err := a.cluster.Patch(ctx, x.Ref, patch); err != nil {
				return err
			}
		}
	}
	return a.cluster.Delete(ctx, nil, stateRef(a.state.Namespace))
}

// Restore puts a namespace back as it was before [Begin], waits until its workloads are ready, and deletes the stored
// values. Values that someone else has changed since are left and reported. It does nothing in a namespace without them.
func Restore(ctx context.Context, c *cluster.Cluster, namespace string, report Report) error {
	if c.DryRun() {
		return nil
	}
	s, found, err := readState(ctx, c, namespace)
	if err != nil || !found {
		return err
	}
	report.notice("namespace %s is restored, and its workloads restart", namespace)
	for _, x := range s.Objects {
		if err := restore(ctx, c, x, report); err != nil {
			return fmt.Errorf("restore namespace %s: %w", namespace, err)
		}
	}
	err = s.settled(ctx, c, endWithin, report.Progress)
	switch {
	case err != nil && ctx.Err() == nil && errors.Is(err, errNotEnding): // all values are back
		report.notice("%v", err)
	case err != nil:
		return fmt.Errorf("restore namespace %s: %w", namespace, err)
	}
	return c.Delete(ctx, report.Progress, stateRef(namespace))
}

// settled waits until the workloads are ready, and no pod of the namespace is ending: the latter for a time, 0 being
// until ctx ends. A pod that is ending then is an [errNotEnding].
func (s state) settled(ctx context.Context, c *cluster.Cluster, within time.Duration, report func(string)) error {
	for _, x := range s.Objects {
		if !x.Pods {
			continue
		}
		if err := c.WaitReady(ctx, report, x.Ref); err != nil && !cluster.IsNotFound(err) {
			return err
		}
	}
	if c.DryRun() {
		return nil
	}
	if within > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, within)
		defer cancel()
	}
	return wait.Until(ctx, endPause, func(ctx context.Context) error {
		pods, err := c.Pods(ctx, s.Namespace)
		ending, found := lists.First(pods, func(p *corev1.Pod) bool { return p.DeletionTimestamp != nil })
		switch {
		case err != nil && ctx.Err() == nil:
			return wait.Stop(err)
		case err != nil || !found:
			return err
		}
		if report != nil {
			report("end of pod " + ending.Name + " of namespace " + s.Namespace)
		}
		return fmt.Errorf("pod %s of namespace %s %w", ending.Name, s.Namespace, errNotEnding)
	})
}

// restore undoes the changes of one object that still have the values that were set. An object that is gone has none.
func restore(ctx context.Context, c *cluster.Cluster, x changed, report Report) error {
	o, err := c.Get(ctx, x.Ref)
	if cluster.IsNotFound(err) {
		return nil
	}
	if err != nil {
		return err
	}
	var ours []change
	for _, one := range x.Changes {
		now := x.value(o, one.Field, one.Name)
		switch {
		case now != nil && *now == one.Value:
			ours = append(ours, one)
		case !equal(now, one.Before):
			report.notice("%s: %s of %s was changed by another user and is kept", x.Ref, one.Name, one.Field)
		}
	}
	if len(ours) == 0 {
		return nil
	}
	patch, err := x.patch(ours, func(one change) *string { return one.Before })
	if err != nil {
		return err
	}
	return c.Patch(ctx, x.Ref, patch)
}

func (r Report) notice(format string, args ...any) {
	if r.Notice != nil {
		r.Notice(fmt.Sprintf(format, args...))
	}
}

func equal(a, b *string) bool {
	if a == nil || b == nil {
		return a == b
	}
	return *a == *b
}
