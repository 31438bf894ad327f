package kube

import (
	"context"
	"errors"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/tare-mesh/tare/internal/experiment"
	"github.com/tare-mesh/tare/internal/experiment/mesh"
	"github.com/tare-mesh/tare/internal/run/platform"
	"github.com/tare-mesh/tare/kube/internal/inplace"
)

// inPlace is an application that is measured where it runs.
type inPlace struct {
	*trial
	applier *applier
	app     *inplace.Application // nil until it is enrolled
}

// enrol stores the values before their change, and puts the namespace under the mesh. Its pods are still the old ones.
func (p *inPlace) enrol(ctx context.Context) error {
	if p == nil {
		return nil
	}
	set := p.spec.Topology.Objects
	if set == nil {
		return experiment.ErrNoObjects
	}
	// The mesh's objects are deleted after the trial: none may be one of the application's.
	var added []runtime.Object
	for _, manifest := range p.enrolment.Manifests {
		err := eachObject([]byte(manifest), func(o *unstructured.Unstructured) error {
			o.SetNamespace(p.namespace)
			added = append(added, o)
			return nil
		})
		if err != nil {
			return err
		}
	}
	if err := p.applier.checkFree(ctx, added); err != nil {
		return err
	}
	text, err := set.Text()
	if err != nil {
		return err
	}
	editor := newObjectEditor(ctx, p.trial, "")
	editor.from = set.Source
	// The objects exist in the cluster. They are not applied, and only recognised.
	if err := eachObject(text, func(o *unstructured.Unstructured) error { editor.found.add(o, p.namespace); return nil }); err != nil {
		return err
	}
	editor.found.jobs = nil // they have run
	if err := editor.checkServices(); err != nil {
		return err
	}
	p.foreign = editor.found
	progress := platform.NewDelayedReport(p.options.Report)
	defer progress.Close()
	p.app, err = inplace.Begin(ctx, p.cluster, p.applier.stamp(), p.namespace, p.foreign.workloads, marksOf(p.enrolment.Namespace), marksOf(p.enrolment.Pod), p.report(progress))
	return err
}

func marksOf(m mesh.Marks) inplace.Marks {
	return inplace.Marks{Labels: m.Labels, Annotations: m.Annotations}
}

// restart replaces the pods by new ones, which the mesh takes in.
func (p *inPlace) restart(ctx context.Context) error {
	if p.app == nil {
		return errors.New("restart the application: it was not enrolled")
	}
	progress := platform.NewDelayedReport(p.options.Report)
	defer progress.Close()
	return p.app.Restart(ctx, progress.Add)
}

// restore puts the application back.
func (p *inPlace) restore(ctx context.Context) error {
	if p == nil {
		return nil
	}
	// Deleting the trial's objects may have used up the time.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), removeTimeout)
	defer cancel()
	progress := platform.NewDelayedReport(p.options.Report)
	defer progress.Close()
	if p.app == nil { // enrolling may have failed half way
		return inplace.Restore(ctx, p.cluster, p.namespace, p.report(progress))
	}
	return p.app.Restore(ctx, p.report(progress))
}

// report delays the progress of waits only.
func (p *inPlace) report(progress *platform.DelayedReport) inplace.Report {
	return inplace.Report{Notice: p.options.Report, Progress: progress.Add}
}
