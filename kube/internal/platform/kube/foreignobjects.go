package kube

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/yaml"

	"github.com/tare-mesh/tare/internal/base/hint"
	"github.com/tare-mesh/tare/internal/base/lists"
	"github.com/tare-mesh/tare/internal/experiment"
	"github.com/tare-mesh/tare/internal/experiment/app"
	"github.com/tare-mesh/tare/internal/run/platform"
	"github.com/tare-mesh/tare/kube/internal/chart"
	"github.com/tare-mesh/tare/kube/internal/cluster"
	"github.com/tare-mesh/tare/kube/internal/inplace"
	"github.com/tare-mesh/tare/kube/internal/kustomize"
)

// foreignObjects are the objects of an application that others wrote, by which its pods are recognised.
type foreignObjects struct {
	workloads []cluster.Ref
	jobs      []cluster.Ref
	templates []podTemplate
	services  map[string]map[string]string // selectors, by name
	added     map[string][]string          // containers that a variant adds, by kind and name of the workload
}

// podTemplate is the part of a pod template that identifies its pods.
type podTemplate struct {
	labels     map[string]string
	containers []string
	added      []string                       // those that a variant adds
	limits     map[string]corev1.ResourceList // by container
}

// add records a Service, or a workload and its pod template.
func (c *foreignObjects) add(o *unstructured.Unstructured, namespace string) {
	ref := cluster.Ref{Kind: o.GroupVersionKind(), Namespace: namespace, Name: o.GetName()}
	switch o.GetKind() {
	case cluster.KindService.Kind:
		selector, _, _ := unstructured.NestedStringMap(o.Object, "spec", "selector")
		c.services[o.GetName()] = selector
	case cluster.KindJob.Kind:
		c.jobs = append(c.jobs, ref)
	case cluster.KindPod.Kind:
		c.workloads = append(c.workloads, ref)
		c.addTemplate(o, o.Object)
	case cluster.KindDeployment.Kind, cluster.KindStatefulSet.Kind, cluster.KindDaemonSet.Kind:
		c.workloads = append(c.workloads, ref)
		if template, ok, _ := unstructured.NestedMap(o.Object, "spec", "template"); ok {
			c.addTemplate(o, template)
		}
	}
}

func (c *foreignObjects) addTemplate(of *unstructured.Unstructured, template map[string]any) {
	t := templateOf(template)
	t.added = c.added[workloadKey(of)]
	c.templates = append(c.templates, t)
}

// workloadKey identifies a workload among the objects of an application.
func workloadKey(o *unstructured.Unstructured) string { return o.GetKind() + "/" + o.GetName() }

func templateOf(o map[string]any) (t podTemplate) {
	t.labels, _, _ = unstructured.NestedStringMap(o, "metadata", "labels")
	for _, field := range []string{"initContainers", "containers"} {
		list, _, _ := unstructured.NestedSlice(o, "spec", field)
		for _, c := range list {
			if fields, ok := c.(map[string]any); ok {
				var one corev1.Container
				one.Name, _, _ = unstructured.NestedString(fields, "name")
				if resources, ok, _ := unstructured.NestedMap(fields, "resources"); ok {
					_ = runtime.DefaultUnstructuredConverter.FromUnstructured(resources, &one.Resources) // the API server refuses others
				}
				t.add(one)
			}
		}
	}
	return t
}

func (t *podTemplate) add(containers ...corev1.Container) {
	if t.limits == nil {
		t.limits = map[string]corev1.ResourceList{}
	}
	for _, c := range containers {
		t.containers = append(t.containers, c.Name)
		t.limits[c.Name] = c.Resources.Limits
	}
}

func (c *foreignObjects) template(pod *corev1.Pod) (podTemplate, bool) {
	return lists.First(c.templates, func(t podTemplate) bool { return selects(t.labels, pod.Labels) })
}

// service returns the Service that selects a pod, from the topology if possible, or "".
func (c *foreignObjects) service(pod *corev1.Pod, topology app.Topology) string {
	names := lists.Map(topology.Services, func(s app.Service) string { return s.Name })
	name, _ := lists.First(append(names, slices.Sorted(maps.Keys(c.services))...), func(name string) bool { return selects(c.services[name], pod.Labels) })
	return name
}

// selects reports whether a label selector matches labels. An empty one matches nothing.
func selects(selector, labels map[string]string) bool {
	return len(selector) > 0 && has(labels, selector)
}

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

// chartEditor edits the objects of the application's chart before the first is applied.
type chartEditor struct {
	objectEditor
	// keep archives the objects that are applied.
	keep func(c chart.Installed, applied []byte) error
	// hooks are the objects that Helm applies at its events, as rendered.
	hooks bytes.Buffer
}

// hookAnnotation has the events at which Helm applies an object. Without it the object is a part of the release.
const hookAnnotation = "helm.sh/hook"

// fileAnnotation is Helm's own, while objects are edited. It is not applied.
const fileAnnotation = "postrenderer.helm.sh/postrender-filename"

// appliedHooks are the events of an installation and its removal. Objects of other events, tests and upgrades, are never applied.
var appliedHooks = []string{"pre-install", "post-install", "pre-delete", "post-delete"}

// CRD implements [chart.Editor]. A CustomResourceDefinition has no namespace.
func (e *chartEditor) CRD(c chart.Installed, manifest []byte) error {
	e.from = "chart " + c.Chart
	return eachObject(manifest, e.outside)
}

func (e *chartEditor) Objects(c chart.Installed, manifest []byte) ([]byte, error) {
	var rendered, applied bytes.Buffer
	e.from = "chart " + c.Chart
	manifest, err := e.change(manifest)
	if err != nil {
		return nil, err
	}
	err = eachObject(manifest, func(o *unstructured.Unstructured) error {
		events := hooksOf(o)
		if events != nil && !slices.ContainsFunc(events, func(event string) bool { return slices.Contains(appliedHooks, event) }) {
			return nil
		}
		if err := e.edit(o, events == nil); err != nil {
			return err
		}
		err := write(&rendered, o)
		if events != nil {
			err = errors.Join(err, write(&e.hooks, o))
		}
		if annotations := o.GetAnnotations(); annotations[fileAnnotation] != "" {
			delete(annotations, fileAnnotation)
			o.SetAnnotations(annotations)
		}
		return errors.Join(err, write(&applied, withoutSecrets(o)))
	})
	if err != nil {
		return nil, err
	}
	if err := e.checkServices(); err != nil {
		return nil, err
	}
	return rendered.Bytes(), e.keep(c, applied.Bytes())
}

// write adds an object to a YAML stream.
func write(to *bytes.Buffer, o *unstructured.Unstructured) error {
	text, err := yaml.Marshal(o.Object)
	if err != nil {
		return fmt.Errorf("write %s of a chart: %w", o.GetName(), err)
	}
	to.WriteString("---\n")
	to.Write(text)
	return nil
}

// hooksOf are the events of a hook, nil if the object is none.
func hooksOf(o *unstructured.Unstructured) (events []string) {
	text, ok := o.GetAnnotations()[hookAnnotation]
	if !ok {
		return nil
	}
	return lists.Map(strings.Split(text, ","), strings.TrimSpace)
}

const (
	defaultRelease = "app"
	// defaultForeignPort is the port of an entry whose port is not in the file.
	defaultForeignPort = 80
)

// helmRelease is an application that is installed from a chart.
type helmRelease struct {
	*trial
	archive archive
	helm    *chart.Helm // nil before install
	release chart.Release
}

// install installs the application's chart. The objects are checked, labelled and archived as they are rendered with the
// capabilities of the cluster, before the first is applied.
func (h *helmRelease) install(ctx context.Context) error {
	if err := h.checkForeign(); err != nil {
		return err
	}
	c := h.spec.Topology.Chart
	spread := h.nodes.schedulable() > 1 && h.options.Affinity != affinityNone
	values, err := c.ValuesFor(max(1, h.spec.Treatment.Levels.Replicas), spread, h.spec.Topology.Changes.Values)
	if err != nil {
		return err
	}
	h.helm = chart.New(h.cluster, h.options.ChartCache)
	h.release = chart.Release{
		Name: cmp.Or(c.Release, defaultRelease), Namespace: h.namespace, Values: values,
		Source: chart.Source{Chart: c.Chart, Repo: c.Repo, Version: c.Version},
	}
	editor := &chartEditor{objectEditor: newObjectEditor(ctx, h.trial, "disable it in application.chart.values"),
		keep: func(c chart.Installed, applied []byte) error { return h.save(c, applied, values) }}
	h.release.Editor = editor
	if h.cluster.DryRun() {
		rendered, err := h.helm.Render(ctx, h.release)
		if err != nil {
			return err
		}
		for _, text := range []string{editor.hooks.String(), rendered.Manifest} {
			if text != "" {
				h.cluster.Recorder().Manifest(cluster.Manifest{Ref: h.namespaceRef(), YAML: []byte(text)}, "apply", "-n", h.namespace, "-f", "-")
			}
		}
	} else if _, err = h.helm.Install(ctx, h.release); err != nil {
		return err
	}
	h.foreign = editor.found
	return nil
}

// save archives the objects that are applied, and the chart's values.
func (h *helmRelease) save(c chart.Installed, applied []byte, values map[string]any) error {
	text, err := yaml.Marshal(values)
	if err != nil {
		return fmt.Errorf("keep the chart's values: %w", err)
	}
	head := fmt.Sprintf("# chart %s %s, application %s\n", c.Chart, c.Version, c.AppVersion)
	for name, content := range map[string][]byte{valuesFile: text, chartFile: bytes.TrimSpace(applied)} {
		if err := h.archive.Write(name, slices.Concat([]byte(head), content, []byte("\n"))); err != nil {
			return fmt.Errorf("keep the chart: %w", err)
		}
	}
	return nil
}

// uninstall uninstalls the release. Its other objects are deleted with the namespace.
func (h *helmRelease) uninstall(ctx context.Context) error {
	if h.helm == nil || h.cluster.DryRun() {
		return nil
	}
	return h.helm.Uninstall(ctx, h.namespace, h.release.Name)
}

// change applies the changes of the trial's variant to a YAML stream of objects, and records the containers that it adds.
func (e *objectEditor) change(objects []byte) ([]byte, error) {
	c := e.spec.Topology.Changes
	if len(c.Images) == 0 && len(c.Patches) == 0 {
		return objects, nil
	}
	name := e.spec.Treatment.Levels.Application
	before, err := containersIn(objects)
	if err != nil {
		return nil, err
	}
	for i, p := range c.Patches {
		if objects, err = kustomize.Patch(objects, p.Target.Kind, p.Target.Name, p.Patch); err != nil {
			return nil, hint.Wrap(fmt.Errorf("patch %d of application %s: %w", i, name, err), hint.Of(err))
		}
	}
	if objects, err = withImages(objects, c.Images); err != nil {
		return nil, fmt.Errorf("application %s: %w", name, err)
	}
	after, err := containersIn(objects)
	if err != nil {
		return nil, err
	}
	e.found.added = map[string][]string{}
	for workload, containers := range after {
		for _, container := range containers {
			if !slices.Contains(before[workload], container) {
				e.found.added[workload] = append(e.found.added[workload], container)
			}
		}
	}
	return objects, nil
}

// containersIn are the containers of each pod template in a YAML stream, by [workloadKey].
func containersIn(objects []byte) (map[string][]string, error) {
	all := map[string][]string{}
	err := eachObject(objects, func(o *unstructured.Unstructured) error {
		if template := podTemplateOf(o); template != nil {
			all[workloadKey(o)] = templateOf(template).containers
		}
		return nil
	})
	return all, err
}

// podTemplateOf is the pod, or the pod template of a workload; nil if the object has none.
func podTemplateOf(o *unstructured.Unstructured) map[string]any {
	if o.GetKind() == "Pod" {
		return o.Object
	}
	template, _, _ := unstructured.NestedMap(o.Object, "spec", "template")
	return template
}

// withImages sets the images of containers by their names, in every pod template that has them.
func withImages(objects []byte, images map[string]string) ([]byte, error) {
	if len(images) == 0 {
		return objects, nil
	}
	missing := maps.Clone(images)
	var all bytes.Buffer
	err := eachObject(objects, func(o *unstructured.Unstructured) error {
		under := []string{"spec", "template", "spec"}
		if o.GetKind() == "Pod" {
			under = []string{"spec"}
		}
		for _, field := range []string{"initContainers", "containers"} {
			path := slices.Concat(under, []string{field})
			list, ok, _ := unstructured.NestedSlice(o.Object, path...)
			if !ok {
				continue
			}
			for _, item := range list {
				c, _ := item.(map[string]any)
				name, _ := c["name"].(string)
				if image, ok := images[name]; ok {
					c["image"] = image
					delete(missing, name)
				}
			}
			if err := unstructured.SetNestedSlice(o.Object, list, path...); err != nil {
				return err
			}
		}
		return write(&all, o)
	})
	if err == nil && len(missing) > 0 {
		err = hint.New("images have the names of containers", "no pod has a container %s", strings.Join(slices.Sorted(maps.Keys(missing)), ", "))
	}
	return all.Bytes(), err
}

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
	p.app, err = inplace.Begin(ctx, p.cluster, p.applier.stamp(), p.namespace, p.foreign.workloads, p.enrolment.Namespace, p.enrolment.Pod, p.report(progress))
	return err
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
