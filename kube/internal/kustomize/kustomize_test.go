package kustomize

import (
	"strings"
	"testing"
)

// A strategic merge patch merges containers by name, a JSON patch edits by path. One that changes nothing is an error.
func TestPatch(t *testing.T) {
	const objects = `{"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web"}, "spec": {"template": {"spec": {"containers": [{"name": "app", "image": "a:1"}]}}}}
---
{"apiVersion": "v1", "kind": "Service", "metadata": {"name": "web"}, "spec": {"ports": [{"port": 80}]}}
`
	const container = "spec: {template: {spec: {containers: [{name: log, image: 'l:1'}]}}}"
	for name, c := range map[string]struct{ kind, object, patch, want string }{
		"merge":              {"Deployment", "web", "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: web}\n" + container, "image: l:1"},
		"of a target":        {"Deployment", "web", container, "image: l:1"},
		"by its own name":    {"", "", "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: web}\n" + container, "image: l:1"},
		"JSON":               {"Deployment", "", "[{op: replace, path: /spec/template/spec/containers/0/image, value: 'a:2'}]", "image: a:2"},
		"no such object":     {"Deployment", "wbe", "[{op: replace, path: /spec/template/spec/containers/0/image, value: 'a:2'}]", "error: it changes no object"},
		"the same as before": {"Deployment", "web", "[{op: replace, path: /spec/template/spec/containers/0/image, value: 'a:1'}]", "error: it changes no object"},
		"no such path":       {"Deployment", "web", "[{op: replace, path: /spec/nowhere/0, value: 'a:1'}]", "error: "},
		"remote as a patch":  {"", "", "https://127.0.0.1:1/p.yaml", "error: "},
	} {
		got, err := Patch([]byte(objects), c.kind, c.object, c.patch)
		if text := string(got); err != nil {
			if !strings.HasPrefix("error: "+err.Error(), c.want) {
				t.Errorf("%s: %v", name, err)
			}
		} else if !strings.Contains(text, c.want) || !strings.Contains(text, "name: app") || !strings.Contains(text, "kind: Service") {
			t.Errorf("%s:\n%s", name, text)
		}
	}
}
