package kube

import (
	"context"
	"errors"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/tare-mesh/tare/internal/base/hint"
	"github.com/tare-mesh/tare/internal/run/platform"
	"github.com/tare-mesh/tare/kube/internal/cluster"
	"github.com/tare-mesh/tare/kube/internal/inplace"
)

// applier creates objects of a trial in the cluster and deletes them.
type applier struct {
	*trial
	archive archive
	created []cluster.Ref // objects to delete, without those in a created namespace
}

// awaitJobs waits until Jobs of an application have completed.
func (a *applier) awaitJobs(ctx context.Context, refs []cluster.Ref) error {
	if a.cluster.DryRun() || len(refs) == 0 {
		return nil
	}
	if err := a.wait(ctx, refs...); err != nil { // a failed Job ends it
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, a.options.readyWithin())
	defer cancel()
	progress := platform.NewDelayedReport(a.options.Report)
	defer progress.Close()
	for _, ref := range refs {
		err := a.cluster.WaitFor(ctx, progress.Add, ref, func(o *unstructured.Unstructured) (bool, string) {
			done, _, _ := unstructured.NestedInt64(o.Object, "status", "succeeded")
			wanted, has, _ := unstructured.NestedInt64(o.Object, "spec", "completions")
			if !has {
				wanted = 1
			}
			return done >= wanted, fmt.Sprintf("%d of %d pods have completed", done, wanted)
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// createTrialNamespace creates the trial's namespace. One with the same name is left from an interrupted attempt and is
// replaced. In an existing namespace the objects of an interrupted attempt are deleted.
func (a *applier) createTrialNamespace(ctx context.Context) error {
	if a.options.existing() {
		if a.cluster.DryRun() {
			return nil
		}
		return leftovers{a.options}.ownRun(ctx)
	}
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: a.namespace}}
	a.enrolment.markNamespace(ns)
	return a.createNamespace(ctx, ns)
}

// createNamespace replaces a namespace of this run and waits until the new one is ready.
func (a *applier) createNamespace(ctx context.Context, ns *corev1.Namespace) error {
	ref := cluster.Ref{Kind: cluster.KindNamespace, Name: ns.Name}
	if err := a.clear(ctx, ref); err != nil {
		return err
	}
	a.created = append(a.created, ref)
	if err := a.apply(ctx, ns); err != nil {
		return err
	}
	return a.wait(ctx, ref)
}

func (a *applier) apply(ctx context.Context, objects ...runtime.Object) error {
	return a.cluster.Apply(ctx, a.stamp(), objects...)
}

// stamp marks the objects of the trial and records their manifests.
func (a *applier) stamp() cluster.Stamp {
	return cluster.Stamp{Run: a.options.Run, Labels: a.stampLabels(), Archive: a.record}
}

// record archives the manifest of an object that is about to be applied. In an existing namespace every object is
// listed for deletion.
func (a *applier) record(m cluster.Manifest) error {
	if a.options.existing() && !inplace.IsState(m.Ref) {
		a.created = append(a.created, m.Ref)
	}
	return a.archive.manifest(m)
}

// wait waits until the objects are ready.
func (a *applier) wait(ctx context.Context, refs ...cluster.Ref) error {
	progress := platform.NewDelayedReport(a.options.Report)
	defer progress.Close()
	ctx, cancel := context.WithTimeout(ctx, a.options.readyWithin())
	defer cancel()
	err := a.cluster.WaitReady(ctx, progress.Add, refs...)
	if errors.Is(err, context.DeadlineExceeded) && hint.Of(err) == "" {
		return hint.Wrap(err, "if they need longer, raise platform.readyWithin")
	}
	return err
}

// clear deletes a namespace of this run. A namespace of another run is an error.
func (a *applier) clear(ctx context.Context, ref cluster.Ref) error {
	if a.cluster.DryRun() {
		return nil
	}
	found, err := a.cluster.Get(ctx, ref)
	if cluster.IsNotFound(err) {
		return nil
	}
	if err != nil {
		return err
	}
	if found.GetLabels()[cluster.LabelRun] != a.options.Run {
		return hint.New("use another results directory (--out)", "create %s: it exists and is not of this run", ref)
	}
	return a.cluster.Delete(ctx, a.options.Report, ref)
}

// checkFree refuses objects whose names are taken by objects of others in an existing namespace.
func (a *applier) checkFree(ctx context.Context, objects []runtime.Object) error {
	if !a.options.existing() || a.cluster.DryRun() {
		return nil
	}
	for _, o := range objects {
		ref, err := cluster.RefOf(o)
		if err != nil {
			return err
		}
		found, err := a.cluster.Get(ctx, ref)
		switch {
		case cluster.IsNotFound(err), meta.IsNoMatchError(err): // applying it explains a missing kind
		case err != nil:
			return err
		case found.GetLabels()[cluster.LabelRun] != a.options.Run:
			return hint.New("use an empty namespace, or rename the service", "create %s: it exists and is not of this run", ref)
		}
	}
	return nil
}

// deleteNamespace deletes a namespace that createNamespace made, and leaves any other alone.
func (a *applier) deleteNamespace(ctx context.Context, name string) error {
	ref := cluster.Ref{Kind: cluster.KindNamespace, Name: name}
	i := slices.Index(a.created, ref)
	if i < 0 {
		return nil
	}
	if err := a.cluster.Delete(ctx, a.options.Report, ref); err != nil {
		return err
	}
	a.created = slices.Delete(a.created, i, i+1)
	return nil
}

// deleteAll deletes everything that was created and waits until it is gone.
func (a *applier) deleteAll(ctx context.Context) error {
	progress := platform.NewDelayedReport(a.options.Report)
	defer progress.Close()
	return a.cluster.Delete(ctx, progress.Add, a.created...)
}
