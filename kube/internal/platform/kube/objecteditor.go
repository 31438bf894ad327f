package kube

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/tare-mesh/tare/internal/base/hint"
	"github.com/tare-mesh/tare/kube/internal/cluster"
)

// objectEditor checks the objects of an application that others wrote, labels them with the run, and enrols their pods in
// the mesh, before the first is applied. An object outside the trial's namespace is refused: it would be shared with the
// rest of the cluster, and remain after a killed run.
type objectEditor struct {
	*trial
	// from is their origin in messages: "chart shop". disable is how to leave one out.
	from, disable string
	// namespaced reports the scope of a kind by API discovery, nil without a cluster, as scopes are then unknown.
	namespaced func(schema.GroupVersionKind) (bool, error)
	found      *foreignObjects
}

func newObjectEditor(ctx context.Context, t *trial, disable string) objectEditor {
	e := objectEditor{trial: t, disable: disable, found: &foreignObjects{services: map[string]map[string]string{}}}
	if !t.cluster.DryRun() {
		e.namespaced = func(kind schema.GroupVersionKind) (bool, error) { return t.cluster.Namespaced(ctx, kind) }
	}
	return e
}

// checkForeign refuses others' objects where a killed run would leave them.
func (t *trial) checkForeign() error {
	if t.options.existing() {
		return hint.New("remove platform.namespace", "objects of others: %w in an existing namespace, where a killed run would leave them", errors.ErrUnsupported)
	}
	return nil
}

// edit checks and labels an object. A part of the running application is recorded, unlike a hook.
func (e *objectEditor) edit(o *unstructured.Unstructured, part bool) error {
	if err := e.check(o); err != nil {
		return err
	}
	stamp := cluster.Stamp{Run: e.options.Run, Labels: e.stampLabels(), Foreign: true}
	if err := stamp.Mark(o); err != nil {
		return err
	}
	if !part {
		return nil
	}
	e.found.add(o, e.namespace)
	return e.enrolment.markForeign(o)
}

// check refuses an object outside the trial's namespace.
func (e *objectEditor) check(o *unstructured.Unstructured) error {
	if o.GetNamespace() != "" && o.GetNamespace() != e.namespace {
		return e.outside(o)
	}
	if e.namespaced == nil {
		return nil
	}
	namespaced, err := e.namespaced(o.GroupVersionKind())
	switch {
	case errors.Is(err, errors.ErrUnsupported):
		return hint.New(e.disable+", or install its custom resource definition first", "%s has %s: %w", e.from, nameOf(o), err)
	case err != nil:
		return err
	case !namespaced:
		return e.outside(o)
	}
	return nil
}

func (e *objectEditor) outside(o *unstructured.Unstructured) error {
	return hint.New(e.disable+": a killed run would leave it in the cluster",
		"%s has %s, outside the trial's namespace: %w", e.from, nameOf(o), errors.ErrUnsupported)
}

// checkServices requires the Services of the topology among the objects.
func (e *objectEditor) checkServices() error {
	for _, s := range e.spec.Topology.Services {
		if _, ok := e.found.services[s.Name]; !ok {
			return hint.New("its Services are "+strings.Join(slices.Sorted(maps.Keys(e.found.services)), ", "), "%s has no Service %s", e.from, s.Name)
		}
	}
	return nil
}

// nameOf names an object of a chart: "ClusterRole shop (hook pre-install)".
func nameOf(o *unstructured.Unstructured) string {
	name := o.GetKind() + " " + strings.TrimPrefix(o.GetNamespace()+"/"+o.GetName(), "/")
	if events := hooksOf(o); events != nil {
		name += " (hook " + strings.Join(events, ", ") + ")"
	}
	return name
}

// withoutSecrets returns o, or a Secret without its values: results are published, and secrets are never among them.
func withoutSecrets(o *unstructured.Unstructured) *unstructured.Unstructured {
	if o.GroupVersionKind() != (schema.GroupVersionKind{Version: "v1", Kind: "Secret"}) {
		return o
	}
	o = o.DeepCopy()
	for _, field := range []string{"data", "stringData"} {
		values, _, _ := unstructured.NestedMap(o.Object, field)
		for key, value := range values {
			text, _ := value.(string)
			values[key] = fmt.Sprintf("not recorded (%d characters)", len(text))
		}
		if values != nil {
			o.Object[field] = values
		}
	}
	return o
}

// eachObject calls f for each object of a YAML stream, and for each item of a List.
func eachObject(stream []byte, f func(*unstructured.Unstructured) error) error {
	all, err := cluster.Parse(stream)
	if err != nil {
		return fmt.Errorf("read the objects of the application: %w", err)
	}
	for _, o := range all {
		if err := f(o); err != nil {
			return err
		}
	}
	return nil
}
