package kube

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"github.com/tare-mesh/tare/internal/base/printable"
	"github.com/tare-mesh/tare/kube/internal/chart"
)

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

// Objects implements [chart.Editor].
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
	return printable.Texts(strings.Split(text, ","), strings.TrimSpace)
}
