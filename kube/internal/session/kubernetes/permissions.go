package kubernetes

import (
	"context"
	"fmt"
	"io"
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/tare-mesh/tare/internal/base/hint"
	"github.com/tare-mesh/tare/internal/experiment"
	"github.com/tare-mesh/tare/internal/experiment/mesh"
	"github.com/tare-mesh/tare/internal/result"
	"github.com/tare-mesh/tare/internal/session"
	"github.com/tare-mesh/tare/kube/internal/cluster"
	"github.com/tare-mesh/tare/kube/internal/rbac"
)

// Permissions derives the RBAC permissions of an experiment from a dry run.
func Permissions(ctx context.Context, s *session.Study) ([]rbac.Permission, error) {
	x := s.Experiment
	if x.Platform.Kind != mesh.OnKubernetes {
		return nil, hint.Usage(fmt.Errorf("the platform of the experiment is %s", x.Platform.Kind), "--set platform.kind=kubernetes")
	}
	if ns := x.Platform.Namespace; ns != "" {
		all := rbac.Needed(true)
		for i := range all {
			all[i].Namespace = ns
		}
		return all, nil
	}
	// Kubelets need a permission that allows far more than reading counters. Only a disposable cluster has node agents.
	if x.Platform.Meter == "" && x.Platform.InUse != "allow" && !x.ByNodeAgent() {
		with := *x
		with.Platform.Meter = session.MeterNodeAgent
		x = &with
	}
	steps, err := recorded(ctx, s, session.Opening{Experiment: x, Results: result.RunsDir, Version: s.Program.Version, Note: func(string) {}}, io.Discard)
	if err != nil {
		return nil, err
	}
	use := rbac.Use{Chart: x.Application.Chart != nil, Faults: len(x.Faults) > 0 || x.Starts > 0, Changes: x.Changing(), BackgroundPods: experiment.MaxBackgroundPods(x) > 0, LeaseNamespace: cluster.SystemNamespace,
		Kubelets: (x.Platform.Meter == "" || x.Platform.Meter == session.MeterKubelet) && !x.ByNodeAgent(),
		Copied:   x.Application.Namespace, CopiedKinds: copiedKinds, InPlace: x.Application.InPlace}
	for _, step := range steps {
		if step.Unknown != nil {
			return nil, hint.Wrap(fmt.Errorf("the permissions for its charts are unknown: %w", step.Unknown), "meshes: {NAME: {charts: DIR}} has charts on this machine")
		}
		if step.Manifest == nil {
			continue
		}
		objects, err := cluster.Parse(step.Manifest.YAML)
		if err != nil {
			return nil, fmt.Errorf("derive permissions: %w", err)
		}
		if slices.Contains(step.Command, "--field-manager") { // tare applies these itself
			use.Applied = append(use.Applied, objects...)
		} else {
			use.Installed = append(use.Installed, objects...)
		}
	}
	for _, t := range s.Plan.Treatments {
		if k := s.Meshes[t.Levels.Mesh].Kubernetes; k != nil {
			use.Mesh = true
			use.Removed = append(use.Removed, removedWith(*k, use.Installed)...)
			changed, err := changedBy(*k, x.Changes.Kinds)
			if err != nil {
				return nil, err
			}
			use.Applied = append(use.Applied, changed...)
		}
	}
	return rbac.For(use), nil
}

// changedBy are the mesh's objects of kinds of changes. A dry run makes no change.
func changedBy(k mesh.Kubernetes, kinds []string) (all []*unstructured.Unstructured, err error) {
	for _, kind := range kinds {
		text, err := k.Change(kind, mesh.ChangeContext{})
		if err != nil {
			return nil, err
		}
		objects, err := cluster.Parse(text)
		if err != nil {
			return nil, err
		}
		all = append(all, objects...)
	}
	return all, nil
}

// removedWith lists the kinds that the removal of a mesh searches for: leftovers of its definition, and objects of its own kinds.
func removedWith(k mesh.Kubernetes, installed []*unstructured.Unstructured) (all []schema.GroupResource) {
	for _, l := range k.Leftovers {
		all = append(all, schema.GroupResource{Group: l.Group, Resource: rbac.ResourceOf(schema.GroupKind{Group: l.Group, Kind: l.Kind})})
	}
	for _, o := range installed {
		if o.GetKind() == "CustomResourceDefinition" {
			all = append(all, schema.ParseGroupResource(o.GetName()))
		}
	}
	if k.Gateway != nil {
		for _, c := range k.Gateway.CRDs {
			for _, name := range c.Kinds {
				all = append(all, schema.ParseGroupResource(name))
			}
		}
	}
	return all
}
