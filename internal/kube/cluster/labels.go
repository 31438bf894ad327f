package cluster

import (
	"encoding/json"
	"fmt"
	"maps"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// FieldManager is tare's name in server-side apply.
const FieldManager = "tare"

// What objects of tare's carry.
const (
	LabelManagedBy  = "app.kubernetes.io/managed-by" // always ManagedBy
	LabelRun        = "tare.dev/run"                 // the run's id: the label that sweeping goes by
	LabelInstalled  = "tare.dev/installed"           // what was installed to outlive runs, by name: never swept, never foreign
	AnnotationOwner = "tare.dev/owner"               // the [Owner] as JSON
	ManagedBy       = "tare"
)

// Stamp is what everything carries that is applied together, and where its manifests are kept.
type Stamp struct {
	Run string // the run's id, a valid label value
	// Installed is, in place of Run, the name of what is installed to outlive the run.
	Installed string
	Owner     Owner             // whose death makes it a leftover; zero: this process
	Labels    map[string]string // more labels
	// Archive is called with each manifest as it is sent, before it is sent; nil keeps none.
	Archive func(Manifest) error
}

// Manifest is one object as it was sent to the cluster.
type Manifest struct {
	Ref  Ref
	YAML []byte // without a document separator
}

// podTemplates are the places where kinds keep the template of their pods.
var podTemplates = [][]string{
	{"spec", "template"},
	{"spec", "jobTemplate", "spec", "template"},
}

// Mark puts the stamp's labels and the owner's annotation on an object, and the labels on the template of its pods.
func (s Stamp) Mark(o *unstructured.Unstructured) error {
	owner, err := json.Marshal(s.owner())
	if err != nil {
		return fmt.Errorf("mark %s: %w", refOf(o), err)
	}
	labels := map[string]string{LabelManagedBy: ManagedBy}
	for label, value := range map[string]string{LabelRun: s.Run, LabelInstalled: s.Installed} {
		if value != "" {
			labels[label] = value
		}
	}
	maps.Copy(labels, s.Labels)
	o.SetLabels(merged(o.GetLabels(), labels))
	o.SetAnnotations(merged(o.GetAnnotations(), map[string]string{AnnotationOwner: string(owner)}))
	for _, path := range podTemplates {
		if template, ok, _ := unstructured.NestedMap(o.Object, path...); !ok || template["spec"] == nil {
			continue // no template of pods: other kinds have a spec.template of their own
		}
		at := append(append([]string{}, path...), "metadata", "labels")
		has, _, err := unstructured.NestedStringMap(o.Object, at...)
		if err != nil {
			return fmt.Errorf("mark %s: %w", refOf(o), err)
		}
		if err := unstructured.SetNestedStringMap(o.Object, merged(has, labels), at...); err != nil {
			return fmt.Errorf("mark %s: %w", refOf(o), err)
		}
	}
	return nil
}

func (s Stamp) owner() Owner {
	if s.Owner == (Owner{}) {
		return ThisProcess()
	}
	return s.Owner
}

func merged(into, from map[string]string) map[string]string {
	all := maps.Clone(into)
	if all == nil {
		all = map[string]string{}
	}
	maps.Copy(all, from)
	return all
}
