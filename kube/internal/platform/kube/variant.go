package kube

import (
	"bytes"
	"fmt"
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/tare-mesh/tare/internal/base/hint"
	"github.com/tare-mesh/tare/kube/internal/kustomize"
)

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
