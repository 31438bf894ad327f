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
	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/tare-mesh/tare/internal/base/hint"
	"github.com/tare-mesh/tare/internal/base/lists"
	"github.com/tare-mesh/tare/internal/experiment/mesh"
	"github.com/tare-mesh/tare/internal/metric"
	"github.com/tare-mesh/tare/kube/internal/cluster"
)

// foreign is a control plane that tare did not install. tare uses it as it is and changes nothing of it.
type foreign struct {
	version    string // labels app.kubernetes.io/version of its workloads, or tags of their images, or empty
	autoscaler string // describes an autoscaler that can change the replicas, or empty
	// others are the labels of pods of revisions that trials do not use.
	others []labels.Set
}

// OtherRevision reports whether a pod with labels is the control plane of a revision of the mesh that trials do not use.
func (m *Mesh) OtherRevision(of map[string]string) bool {
	return m.foreign != nil && slices.ContainsFunc(m.foreign.others, func(s labels.Set) bool { return s.AsSelector().Matches(labels.Set(of)) })
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
	_, ours, err := a.installed(ctx)
	if err != nil || ours && a.requested.Revision == "" {
		return nil, err
	}
	running, err := a.running(ctx)
	switch {
	case err != nil:
		return nil, err
	case a.requested.Revision != "" && (ours || len(running) == 0):
		return nil, hint.New("remove revision: a run installs and names its own", "revision %s of mesh %s: no control plane that tare did not install runs in namespace %s",
			a.requested.Revision, a.definition.Name, a.k.Namespace)
	case len(running) == 0:
		return nil, nil
	}
	if acts := slices.DeleteFunc(slices.Clone(a.options.Changes), func(kind string) bool { return !slices.Contains(ofControlPlane, kind) }); len(acts) > 0 {
		return nil, hint.New("run these changes on a cluster whose mesh the run installs", "tare did not install mesh %s, which runs in namespace %s, and does not change its control plane: %s",
			a.definition.Name, a.k.Namespace, strings.Join(acts, ", "))
	}
	injects, err := a.injector(ctx)
	if err != nil {
		return nil, err
	}
	f := &foreign{}
	if a.requested.Revision != "" {
		if running, f.others, err = a.behind(ctx, injects.service, running); err != nil {
			return nil, err
		}
	}
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
	a.k.Workloads, a.k.Enrolment.Namespace.Labels, a.foreign = workloads, injects.labels, f
	return f, nil
}

// running returns the definition's workloads that exist in the mesh's namespace. Without one of that name, or if a revision is
// requested, the Deployments of revisions count, whose names are followed by "-" and the revision.
func (a adopter) running(ctx context.Context) (found []*unstructured.Unstructured, err error) {
	for _, w := range a.k.Workloads {
		names := []string{w.Name}
		_, err := a.cluster.Get(ctx, RefOf(w, a.k.Namespace))
		if absent := cluster.IsNotFound(err); absent || a.requested.Revision != "" {
			revisions, err := a.revisionsOf(ctx, w)
			if err != nil {
				return nil, err
			}
			if absent {
				names = nil
			}
			names = append(names, revisions...)
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
	list, err := cluster.Retried(ctx, a.cluster, "list the deployments of "+a.k.Namespace, func(ctx context.Context) (*appsv1.DeploymentList, error) {
		return a.cluster.Typed().AppsV1().Deployments(a.k.Namespace).List(ctx, metav1.ListOptions{})
	})
	if err != nil {
		return nil, err
	}
	for _, d := range list.Items {
		if strings.HasPrefix(d.Name, w.Name+"-") {
			names = append(names, d.Name)
		}
	}
	return names, nil
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

// injector is a webhook of the mesh: labels of a namespace that it selects, and the Service that it calls.
type injector struct {
	labels  labels.Set
	service string
}

// injector returns the webhook that injects into the trials' namespaces: the one of the requested revision or revision tag, or else
// one that selects the definition's labels, or else the only one.
func (a adopter) injector(ctx context.Context) (injector, error) {
	known := injector{labels: a.k.Enrolment.Namespace.Labels}
	if len(known.labels) == 0 || len(a.k.Webhooks) == 0 {
		return known, nil // by annotations, or without a webhook
	}
	var all []injector
	selected := false
	err := a.cluster.Retry(ctx, "list the webhooks of the mesh", func(ctx context.Context) error {
		list, err := a.cluster.Typed().AdmissionregistrationV1().MutatingWebhookConfigurations().List(ctx, metav1.ListOptions{})
		if err != nil {
			return err
		}
		all, selected = nil, false
		for _, w := range list.Items {
			for _, hook := range w.Webhooks {
				service := hook.ClientConfig.Service
				if service == nil || service.Namespace != a.k.Namespace || !selects(hook.ObjectSelector, nil) {
					continue
				}
				selected = selected || selects(hook.NamespaceSelector, known.labels)
				if least := leastLabels(hook); least != nil && !slices.ContainsFunc(all, func(o injector) bool { return maps.Equal(o.labels, least) }) {
					all = append(all, injector{least, service.Name})
				}
			}
		}
		return nil
	})
	names := lists.Map(all, func(o injector) string { return o.labels.String() })
	revision := a.requested.Revision
	switch i := slices.IndexFunc(all, func(o injector) bool { return slices.Contains(slices.Collect(maps.Values(o.labels)), revision) }); {
	case err != nil:
		return known, err
	case revision != "" && i >= 0:
		return all[i], nil
	case revision != "":
		return known, hint.New("its webhooks select namespaces with "+strings.Join(names, " or "), "mesh %s has no revision or revision tag %s", a.definition.Name, revision)
	case selected:
		return known, nil
	case len(all) == 1:
		return all[0], nil
	case len(all) == 0:
		return known, fmt.Errorf("no webhook of mesh %s selects a namespace with %s", a.definition.Name, known.labels)
	}
	return known, hint.New(fmt.Sprintf("choose one in the experiment: meshes: {%s: {revision: NAME}}", a.definition.Name),
		"the webhooks of mesh %s select namespaces with %s", a.definition.Name, strings.Join(names, " or "))
}

// behind returns the workloads whose pods a Service selects: the control plane of one revision among several. others are the labels
// of the other pods.
func (a adopter) behind(ctx context.Context, service string, all []*unstructured.Unstructured) (found []*unstructured.Unstructured, others []labels.Set, err error) {
	o, err := a.cluster.Get(ctx, cluster.Ref{Kind: cluster.KindService, Namespace: a.k.Namespace, Name: service})
	if err != nil {
		return nil, nil, err
	}
	selector, _, _ := unstructured.NestedStringMap(o.Object, "spec", "selector")
	for _, w := range all {
		of, _, _ := unstructured.NestedStringMap(w.Object, "spec", "template", "metadata", "labels")
		if len(selector) > 0 && labels.SelectorFromSet(selector).Matches(labels.Set(of)) {
			found = append(found, w)
		} else if len(of) > 0 {
			others = append(others, of)
		}
	}
	if found == nil {
		return nil, nil, fmt.Errorf("service %s of mesh %s selects the pods of none of its workloads", service, a.definition.Name)
	}
	return found, others, nil
}

// leastLabels returns the fewest labels of a namespace that a webhook selects. They are nil without a label that it requires.
func leastLabels(hook admissionv1.MutatingWebhook) labels.Set {
	if hook.NamespaceSelector == nil {
		return nil
	}
	least := map[string]string{}
	maps.Copy(least, hook.NamespaceSelector.MatchLabels)
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
