package kube

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	yamls "k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/yaml"

	"github.com/tare-mesh/tare/internal/base/hint"
	"github.com/tare-mesh/tare/internal/kube/chart"
	"github.com/tare-mesh/tare/internal/kube/cluster"
)

// chartEditor checks the objects of the application's chart and labels them with the run, before the first is applied.
// An object outside the trial's namespace is refused: it would be shared with the rest of the cluster, and remain after
// a killed run.
type chartEditor struct {
	*trial
	// namespaced reports the scope of a kind by API discovery; nil: without a cluster scopes are unknown.
	namespaced func(schema.GroupVersionKind) (bool, error)
	// keep archives the objects that are applied.
	keep  func(c chart.Installed, applied []byte) error
	found *chartObjects
}

// hookAnnotation has the events at which Helm applies an object; without it the object is a part of the release.
const hookAnnotation = "helm.sh/hook"

// fileAnnotation is Helm's own, while objects are edited. It is not applied.
const fileAnnotation = "postrenderer.helm.sh/postrender-filename"

// appliedHooks are the events of an installation and its removal. Objects of other events, tests and upgrades, are never applied.
var appliedHooks = []string{"pre-install", "post-install", "pre-delete", "post-delete"}

// CRD implements [chart.Editor]. A CustomResourceDefinition has no namespace.
func (e *chartEditor) CRD(c chart.Installed, manifest []byte) error {
	return eachObject(manifest, func(o *unstructured.Unstructured) error { return outside(c, o) })
}

// Objects implements [chart.Editor].
func (e *chartEditor) Objects(c chart.Installed, manifest []byte) ([]byte, error) {
	var rendered, applied bytes.Buffer
	stamp := cluster.Stamp{Run: e.options.Run, Labels: e.stampLabels(), Foreign: true}
	err := eachObject(manifest, func(o *unstructured.Unstructured) error {
		events := hooksOf(o)
		if events != nil && !slices.ContainsFunc(events, func(event string) bool { return slices.Contains(appliedHooks, event) }) {
			return nil
		}
		if err := e.check(c, o); err != nil {
			return err
		}
		if err := stamp.Mark(o); err != nil {
			return err
		}
		if events == nil {
			e.found.add(o, e.namespace)
		}
		err := write(&rendered, o)
		if annotations := o.GetAnnotations(); annotations[fileAnnotation] != "" {
			delete(annotations, fileAnnotation)
			o.SetAnnotations(annotations)
		}
		return errors.Join(err, write(&applied, withoutSecrets(o)))
	})
	if err != nil {
		return nil, err
	}
	for _, s := range e.spec.Topology.Services {
		if _, ok := e.found.services[s.Name]; !ok {
			return nil, hint.New("its Services are "+strings.Join(slices.Sorted(maps.Keys(e.found.services)), ", "), "chart %s has no Service %s", c.Chart, s.Name)
		}
	}
	return rendered.Bytes(), e.keep(c, applied.Bytes())
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

// check refuses an object outside the trial's namespace.
func (e *chartEditor) check(c chart.Installed, o *unstructured.Unstructured) error {
	if o.GetNamespace() != "" && o.GetNamespace() != e.namespace {
		return outside(c, o)
	}
	if e.namespaced == nil {
		return nil
	}
	namespaced, err := e.namespaced(o.GroupVersionKind())
	switch {
	case errors.Is(err, errors.ErrUnsupported):
		return hint.New("disable it in application.chart.values, or install its custom resource definition first", "chart %s has %s: %w", c.Chart, nameOf(o), err)
	case err != nil:
		return err
	case !namespaced:
		return outside(c, o)
	}
	return nil
}

func outside(c chart.Installed, o *unstructured.Unstructured) error {
	return hint.New("disable it in application.chart.values: a killed run would leave it in the cluster",
		"chart %s has %s, outside the trial's namespace: %w", c.Chart, nameOf(o), errors.ErrUnsupported)
}

// nameOf names an object of a chart: "ClusterRole shop (hook pre-install)".
func nameOf(o *unstructured.Unstructured) string {
	name := o.GetKind() + " " + strings.TrimPrefix(o.GetNamespace()+"/"+o.GetName(), "/")
	if events := hooksOf(o); events != nil {
		name += " (hook " + strings.Join(events, ", ") + ")"
	}
	return name
}

// hooksOf are the events of a hook; nil: the object is none.
func hooksOf(o *unstructured.Unstructured) (events []string) {
	text, ok := o.GetAnnotations()[hookAnnotation]
	if !ok {
		return nil
	}
	for _, event := range strings.Split(text, ",") {
		events = append(events, strings.TrimSpace(event))
	}
	return events
}

// eachObject calls f for each object of a YAML stream, and for each item of a List.
func eachObject(stream []byte, f func(*unstructured.Unstructured) error) error {
	documents := yamls.NewYAMLReader(bufio.NewReader(bytes.NewReader(stream)))
	for {
		text, err := documents.Read()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("read the objects of the chart: %w", err)
		}
		fields, err := yaml.YAMLToJSON(text)
		if err != nil {
			return fmt.Errorf("read the objects of the chart: %w", err)
		}
		if s := string(bytes.TrimSpace(fields)); s == "null" || s == "{}" {
			continue
		}
		o := &unstructured.Unstructured{}
		if err := o.UnmarshalJSON(fields); err != nil {
			return fmt.Errorf("read the objects of the chart: %w", err)
		}
		if !o.IsList() {
			err = f(o)
		} else {
			err = o.EachListItem(func(item runtime.Object) error {
				one, ok := item.(*unstructured.Unstructured)
				if !ok {
					return fmt.Errorf("read the objects of the chart: %T in a List: %w", item, errors.ErrUnsupported)
				}
				return f(one)
			})
		}
		if err != nil {
			return err
		}
	}
}
