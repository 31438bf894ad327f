package meshes

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/tare-mesh/tare/internal/base/hint"
	"github.com/tare-mesh/tare/internal/base/printable"
	"github.com/tare-mesh/tare/internal/experiment/mesh"
	"github.com/tare-mesh/tare/internal/metric"
	"github.com/tare-mesh/tare/kube/internal/cluster"
)

// foreign is a control plane that tare did not install. tare uses it as it is and changes nothing of it.
type foreign struct {
	version    string // labels app.kubernetes.io/version of its workloads, or tags of their images, or empty
	autoscaler string // describes an autoscaler that can change the replicas, or empty
}

// ofControlPlane are the kinds of changes that restart, stop or replace a control plane.
var ofControlPlane = []string{metric.ControlRestarted, metric.ControlStopped, metric.VersionChanged}

// adopter takes over a mesh that tare did not install, as it is.
type adopter struct{ *instance }

// adopt looks for a control plane that tare did not install. It takes the names and replicas of its workloads, and the
// labels that its injector selects, in place of the definition's. The result is nil if there is none.
func (a adopter) adopt(ctx context.Context) (*foreign, error) {
	if a.foreign != nil || a.cluster.DryRun() || !a.installable() {
		return a.foreign, nil
	}
	if _, ours, err := a.installed(ctx); ours || err != nil {
		return nil, err
	}
	running, err := a.running(ctx)
	if err != nil || len(running) == 0 {
		return nil, err
	}
	if acts := slices.DeleteFunc(slices.Clone(a.options.Changes), func(kind string) bool { return !slices.Contains(ofControlPlane, kind) }); len(acts) > 0 {
		return nil, hint.New("run these changes on a cluster whose mesh the run installs", "tare did not install mesh %s, which runs in namespace %s, and does not change its control plane: %s",
			a.definition.Name, a.k.Namespace, strings.Join(acts, ", "))
	}
	marks, err := a.injected(ctx)
	if err != nil {
		return nil, err
	}
	f := &foreign{}
	var workloads []mesh.Workload
	var versions []string
	for _, o := range running {
		w := mesh.Workload{Kind: o.GetKind(), Name: o.GetName()}
		unfixed, err := scaler{a.cluster, a.options.Report}.unfixed(ctx, RefOf(w, a.k.Namespace), int(number(o, "spec", "replicas")))
		if err != nil {
			return nil, err
		}
		f.autoscaler = cmp.Or(f.autoscaler, unfixed)
		workloads = append(workloads, w)
		if v := versionOfWorkload(o); v != "" && !slices.Contains(versions, v) {
			versions = append(versions, v)
		}
	}
	f.version = strings.Join(versions, ", ")
	a.k.Workloads, a.k.Enrolment.Namespace.Labels, a.foreign = workloads, marks, f
	return f, nil
}

// running returns the definition's workloads that exist in the mesh's namespace. Without one of that name, the Deployments of
// revisions count, whose names are followed by "-" and the revision.
func (a adopter) running(ctx context.Context) (found []*unstructured.Unstructured, err error) {
	for _, w := range a.k.Workloads {
		names := []string{w.Name}
		if _, err := a.cluster.Get(ctx, RefOf(w, a.k.Namespace)); cluster.IsNotFound(err) {
			if names, err = a.revisionsOf(ctx, w); err != nil {
				return nil, err
			}
		}
		for _, name := range names {
			o, err := a.cluster.Get(ctx, RefOf(mesh.Workload{Kind: w.Kind, Name: name}, a.k.Namespace))
			if err != nil {
				return nil, err
			}
			found = append(found, o)
		}
	}
	return found, nil
}

// revisionsOf lists the Deployments whose names begin with a workload's name and "-".
func (a adopter) revisionsOf(ctx context.Context, w mesh.Workload) (names []string, err error) {
	if kinds[w.Kind] != cluster.KindDeployment {
		return nil, nil
	}
	err = a.cluster.Retry(ctx, "list the deployments of "+a.k.Namespace, func(ctx context.Context) error {
		list, err := a.cluster.Typed().AppsV1().Deployments(a.k.Namespace).List(ctx, metav1.ListOptions{})
		if err != nil {
			return err
		}
		names = nil
		for _, d := range list.Items {
			if strings.HasPrefix(d.Name, w.Name+"-") {
				names = append(names, d.Name)
			}
		}
		return nil
	})
	return names, err
}

// versionOfWorkload is a workload's label app.kubernetes.io/version, or the tag of the image of its first container.
func versionOfWorkload(o *unstructured.Unstructured) string {
	if v := o.GetLabels()["app.kubernetes.io/version"]; v != "" {
		return v
	}
	containers, _, _ := unstructured.NestedSlice(o.Object, "spec", "template", "spec", "containers")
	if len(containers) == 0 {
		return ""
	}
	first, _ := containers[0].(map[string]any)
	image, _, _ := unstructured.NestedString(first, "image")
	image, _, _ = strings.Cut(image, "@")
	_, tag, _ := strings.Cut(image[strings.LastIndex(image, "/")+1:], ":")
	return tag
}

// injected returns the labels with which the mesh's webhooks select a namespace: the definition's if one of them selects those,
// or else the labels of the only selector.
func (a adopter) injected(ctx context.Context) (map[string]string, error) {
	known := a.k.Enrolment.Namespace.Labels
	if len(known) == 0 || len(a.k.Webhooks) == 0 {
		return known, nil // by annotations, or without a webhook
	}
	var selectors []labels.Set
	selected := false
	err := a.cluster.Retry(ctx, "list the webhooks of the mesh", func(ctx context.Context) error {
		all, err := a.cluster.Typed().AdmissionregistrationV1().MutatingWebhookConfigurations().List(ctx, metav1.ListOptions{})
		if err != nil {
			return err
		}
		selectors, selected = nil, false
		for _, w := range all.Items {
			for _, hook := range w.Webhooks {
				if hook.ClientConfig.Service == nil || hook.ClientConfig.Service.Namespace != a.k.Namespace || !selects(hook.ObjectSelector, nil) {
					continue
				}
				selected = selected || selects(hook.NamespaceSelector, known)
				if least := leastLabels(hook); least != nil && !slices.ContainsFunc(selectors, func(o labels.Set) bool { return maps.Equal(o, least) }) {
					selectors = append(selectors, least)
				}
			}
		}
		return nil
	})
	switch {
	case err != nil:
		return nil, err
	case selected:
		return known, nil
	case len(selectors) == 1:
		return selectors[0], nil
	case len(selectors) == 0:
		return nil, fmt.Errorf("no webhook of mesh %s selects a namespace with %s", a.definition.Name, labels.Set(known))
	}
	return nil, hint.New("make one of the revisions the default of new namespaces",
		"the webhooks of mesh %s select namespaces with %s", a.definition.Name, strings.Join(printable.Texts(selectors, labels.Set.String), " or "))
}

// leastLabels returns the fewest labels of a namespace that a webhook selects. They are nil without a label that it requires.
func leastLabels(hook admissionv1.MutatingWebhook) labels.Set {
	if hook.NamespaceSelector == nil {
		return nil
	}
	least := maps.Clone(hook.NamespaceSelector.MatchLabels)
	if least == nil {
		least = map[string]string{}
	}
	for _, e := range hook.NamespaceSelector.MatchExpressions {
		if e.Operator == metav1.LabelSelectorOpIn && len(e.Values) > 0 {
			least[e.Key] = e.Values[0]
		}
	}
	if len(least) == 0 || !selects(hook.NamespaceSelector, least) {
		return nil
	}
	return least
}

// selects reports whether a selector matches labels. Every object matches an absent one.
func selects(s *metav1.LabelSelector, of labels.Set) bool {
	if s == nil {
		return true
	}
	selector, err := metav1.LabelSelectorAsSelector(s)
	return err == nil && selector.Matches(of)
}

// archive keeps the version of a control plane that tare did not install.
func (a adopter) archive() error {
	text, err := json.MarshalIndent(Installation{Mesh: a.definition.Name, From: a.definition.From, Version: a.foreign.version, Namespace: a.k.Namespace}, "", "  ")
	if err != nil {
		return fmt.Errorf("archive the installation: %w", err)
	}
	return a.keep("installation.json", text)
}
