package kube

import (
	"reflect"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/tare-mesh/tare/internal/experiment/app"
	"github.com/tare-mesh/tare/internal/run/platform"
	"github.com/tare-mesh/tare/test/must"
)

// A variant records the containers that it adds, and sets images by container. A container that no pod has is an error.
func TestVariantOfObjects(t *testing.T) {
	const objects = `{"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web"}, "spec": {"template": {"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [{"name": "app", "image": "a:1"}]}}}}
---
{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "one"}, "spec": {"initContainers": [{"name": "app", "image": "a:1"}]}}
`
	add := app.ObjectPatch{Target: app.PatchTarget{Kind: "Deployment"}, Patch: "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: web}\nspec: {template: {spec: {containers: [{name: log, image: 'l:1'}]}}}"}
	for name, c := range map[string]struct {
		changes app.ObjectChanges
		added   map[string][]string
		want    string
	}{
		"none":          {app.ObjectChanges{}, nil, `"a:1"`},
		"a container":   {app.ObjectChanges{Patches: []app.ObjectPatch{add}}, map[string][]string{"Deployment/web": {"log"}}, "image: l:1"},
		"its image":     {app.ObjectChanges{Patches: []app.ObjectPatch{add}, Images: map[string]string{"log": "l:2"}}, map[string][]string{"Deployment/web": {"log"}}, "image: l:2"},
		"an image":      {app.ObjectChanges{Images: map[string]string{"app": "a:2"}}, map[string][]string{}, "image: a:2"},
		"no container":  {app.ObjectChanges{Images: map[string]string{"nginx": "n:2"}}, nil, "error: application x: no pod has a container nginx"},
		"a typing slip": {app.ObjectChanges{Patches: []app.ObjectPatch{{Target: app.PatchTarget{Kind: "Deploymnt"}, Patch: add.Patch}}}, nil, "error: patch 0 of application x: it changes no object"},
	} {
		e := objectEditor{trial: &trial{spec: platform.Spec{}}, found: &foreignObjects{}}
		e.spec.Topology.Changes, e.spec.Treatment.Levels.Application = c.changes, "x"
		got, err := e.change([]byte(objects))
		text := string(got)
		if err != nil {
			text = "error: " + err.Error()
		}
		if !strings.Contains(text, c.want) || err == nil && !reflect.DeepEqual(e.found.added, c.added) {
			t.Errorf("%s: adds %v:\n%s", name, e.found.added, text)
		}
	}
	e := objectEditor{trial: &trial{}, found: &foreignObjects{added: map[string][]string{"Deployment/web": {"log"}}, services: map[string]map[string]string{}}}
	must.OK(t, eachObject([]byte(objects), func(o *unstructured.Unstructured) error { e.found.add(o, "n"); return nil }))
	if got := e.found.templates[0]; !reflect.DeepEqual(got.added, []string{"log"}) || len(e.found.templates[1].added) != 0 {
		t.Errorf("%+v", e.found.templates)
	}
}
