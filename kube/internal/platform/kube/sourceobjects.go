package kube

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/tare-mesh/tare/internal/experiment"
	"github.com/tare-mesh/tare/kube/internal/cluster"
)

// sourceObjects is an application from manifests, or copied from a namespace.
type sourceObjects struct {
	*trial
	applier *applier
}

// install applies the objects in the trial's namespace. All are checked before the first is applied.
func (s *sourceObjects) install(ctx context.Context) error {
	if err := s.checkForeign(); err != nil {
		return err
	}
	set := s.spec.Topology.Objects
	if set == nil {
		return fmt.Errorf("install the application: %w", experiment.ErrNoObjects)
	}
	text, err := set.Text()
	if err != nil {
		return fmt.Errorf("install the application: %w", err)
	}
	editor := newObjectEditor(ctx, s.trial, "remove it from the manifests")
	editor.from = set.Source
	if text, err = editor.change(text); err != nil {
		return err
	}
	var objects []runtime.Object
	err = eachObject(text, func(o *unstructured.Unstructured) error {
		if err := editor.edit(o, true); err != nil {
			return err
		}
		o.Object = set.Place(o.Object, s.namespace)
		s.expose(o)
		if s.cluster.DryRun() && s.spec.Topology.Namespace != "" {
			o = withoutSecrets(o) // the secrets belong to a running application
		}
		objects = append(objects, o)
		return nil
	})
	if err == nil {
		err = editor.checkServices()
	}
	if err != nil {
		return err
	}
	stamp := s.applier.stamp()
	stamp.Foreign = true
	if err := s.cluster.Apply(ctx, stamp, objects...); err != nil {
		return err
	}
	s.foreign = editor.found
	return nil
}

// expose sets the type of the entry's Service for a load from outside.
func (s *sourceObjects) expose(o *unstructured.Unstructured) {
	t := s.options.serviceType()
	if t == corev1.ServiceTypeClusterIP || s.enrolment.gateway != nil || o.GroupVersionKind() != cluster.KindService || o.GetName() != s.spec.Entry().Name {
		return
	}
	_ = unstructured.SetNestedField(o.Object, string(t), "spec", "type")
}
