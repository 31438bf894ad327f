package cluster

import (
	"encoding/json"
	"fmt"
	"maps"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// FieldManager is tare's name in server-side apply.
const FieldManager = "tare"

// Labels and annotations of tare's objects.
const (
	LabelManagedBy  = "app.kubernetes.io/managed-by" // always ManagedBy
	LabelRun        = "tare.dev/run"                 // the run's ID, by which clean-up finds objects
	LabelInstalled  = "tare.dev/installed"           // name of an installation that outlives runs: clean-up leaves it alone, the guard accepts it
	AnnotationOwner = "tare.dev/owner"               // the [Owner] as JSON
	ManagedBy       = "tare"
)

// Stamp is the marks of objects that are applied together, and the archive of their manifests.
type Stamp struct {
	Run string // the run's ID, a valid label value
	// Installed is, in place of Run, the name of an installation that outlives the run.
	Installed string
	Owner     Owner             // the process whose end makes the objects leftovers, zero for this process
	Labels    map[string]string // more labels
	// Foreign objects are another tool's, such as Helm's: their label [LabelManagedBy] stays.
	Foreign bool
	// Archive receives each manifest before it is sent, and nil keeps none.
	Archive func(Manifest) error
}

// Manifest is one object as sent to the cluster.
type Manifest struct {
	Ref  Ref
	YAML []byte // without a document separator
}

// podTemplates are the paths of pod templates in the kinds that have one.
var podTemplates = [][]string{
	{"spec", "template"},
	{"spec", "jobTemplate", "spec", "template"},
}

// Mark sets the stamp's labels and the owner's annotation on an object, and the labels on its pod template.
func (s Stamp) Mark(o *unstructured.Unstructured) error {
	owner, err := json.Marshal(s.owner())
	if err != nil {
		return fmt.Errorf("mark %s: %w", refOf(o), err)
	}
	labels := map[string]string{}
	if !s.Foreign {
		labels[LabelManagedBy] = ManagedBy
	}
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
			continue // not a pod template: other kinds use spec.template differently
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
