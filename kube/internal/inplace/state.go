// Package inplace enrols an application where it runs, restarts it, and puts it back.
//
// It changes labels and annotations of the application's namespace and of pod templates. Their values before are in a
// ConfigMap beside the application before the first is changed, with the run's label and its process. So a killed run is
// put back by the next run, or by `tare cluster cleanup`, from the cluster alone.
package inplace

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/tare-mesh/tare/internal/base/hint"
	"github.com/tare-mesh/tare/internal/experiment/mesh"
	"github.com/tare-mesh/tare/kube/internal/cluster"
)

const (
	// stateName is the ConfigMap, and stateKey its content.
	stateName = "tare-in-place"
	stateKey  = "state.json"
	// annotationRestarted on a pod template makes a controller replace the pods, as kubectl rollout restart does.
	annotationRestarted = "tare.dev/restarted"
)

// state is the changes of an application.
type state struct {
	Namespace string    `json:"namespace"`
	Objects   []changed `json:"objects"` // the namespace first
}

// changed is an object with changes: of its own metadata, or of its pod template's.
type changed struct {
	Ref     cluster.Ref `json:"ref"`
	Pods    bool        `json:"pods,omitempty"`
	Changes []change    `json:"changes"`
}

// change is a label or an annotation.
type change struct {
	Field  string  `json:"field"` // labels or annotations
	Name   string  `json:"name"`
	Value  string  `json:"value"`
	Before *string `json:"before,omitempty"` // nil: it was absent
}

// IsState reports whether an object has the values before a change. Deleting it alone would lose them.
func IsState(ref cluster.Ref) bool {
	return ref.Kind.GroupKind() == cluster.KindConfigMap.GroupKind() && ref.Name == stateName
}

func (s state) configMap() (*corev1.ConfigMap, error) {
	text, err := json.MarshalIndent(s, "", "  ")
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: s.Namespace, Name: stateName}, Data: map[string]string{stateKey: string(text)}},
		hint.Prefix(err, "write the state of namespace %s", s.Namespace)
}

// readState reads the state of a namespace, false if nothing is changed there.
func readState(ctx context.Context, c *cluster.Cluster, namespace string) (s state, found bool, err error) {
	o, err := c.Get(ctx, stateRef(namespace))
	if cluster.IsNotFound(err) {
		return s, false, nil
	}
	if err != nil {
		return s, false, err
	}
	text, _, _ := unstructured.NestedString(o.Object, "data", stateKey)
	if err := json.Unmarshal([]byte(text), &s); err != nil {
		return s, false, fmt.Errorf("read %s: %w", stateRef(namespace), err)
	}
	if !s.own(namespace) {
		return s, false, hint.New("someone else wrote it: check it with kubectl, restore the namespace by hand, and delete it", "%s names changes that tare does not make", stateRef(namespace))
	}
	return s, true, nil
}

func stateRef(namespace string) cluster.Ref {
	return cluster.Ref{Kind: cluster.KindConfigMap, Namespace: namespace, Name: stateName}
}

// own reports whether the state has only changes that [Begin] makes. A user who may write ConfigMaps of the namespace
// can write it too, and must not get the permissions of tare.
func (s state) own(namespace string) bool {
	kinds := []schema.GroupKind{cluster.KindDeployment.GroupKind(), cluster.KindStatefulSet.GroupKind(), cluster.KindDaemonSet.GroupKind()}
	for _, x := range s.Objects {
		itself := !x.Pods && x.Ref == (cluster.Ref{Kind: cluster.KindNamespace, Name: namespace})
		workload := x.Pods && x.Ref.Namespace == namespace && slices.Contains(kinds, x.Ref.Kind.GroupKind())
		if !itself && !workload {
			return false
		}
		for _, c := range x.Changes {
			if c.Field != "labels" && c.Field != "annotations" || strings.HasPrefix(c.Name, "pod-security.kubernetes.io/") {
				return false
			}
		}
	}
	return s.Namespace == namespace
}

// changesOf are the changes that set marks, with the values before them.
func changesOf(m mesh.Marks, before func(field, name string) *string) (all []change) {
	for _, f := range []struct {
		name  string
		marks map[string]string
	}{{"labels", m.Labels}, {"annotations", m.Annotations}} {
		for _, name := range slices.Sorted(maps.Keys(f.marks)) {
			all = append(all, change{Field: f.name, Name: name, Value: f.marks[name], Before: before(f.name, name)})
		}
	}
	return all
}

// value is a label or an annotation of an object, nil if absent.
func (c changed) value(o *unstructured.Unstructured, field, name string) *string {
	all, _, _ := unstructured.NestedStringMap(o.Object, append(c.metadataPath(), field)...)
	if v, ok := all[name]; ok {
		return &v
	}
	return nil
}

// patch is the JSON merge patch that sets values, where nil removes one.
func (c changed) patch(changes []change, value func(change) *string) ([]byte, error) {
	fields := map[string]map[string]*string{}
	for _, x := range changes {
		if fields[x.Field] == nil {
			fields[x.Field] = map[string]*string{}
		}
		fields[x.Field][x.Name] = value(x)
	}
	var at any = fields
	for _, name := range slices.Backward(c.metadataPath()) {
		at = map[string]any{name: at}
	}
	text, err := json.Marshal(at)
	return text, hint.Prefix(err, "change %s", c.Ref)
}

func (c changed) metadataPath() []string {
	if c.Pods {
		return []string{"spec", "template", "metadata"}
	}
	return []string{"metadata"}
}
