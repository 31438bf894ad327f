package kustomize

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"github.com/tare-mesh/tare/internal/base/hint"
	"github.com/tare-mesh/tare/internal/base/must"
)

// An overlay with a base: names, images, replicas, and a ConfigMap with its references.
func TestRender(t *testing.T) {
	text := must.Get(Render("testdata/overlay"))(t)
	must.Contain(t, string(text), "name: big-web", "image: registry.example/web:2", "replicas: 3", "<p>see https://example.com</p>")
	if names := regexp.MustCompile(`name: big-settings-\w{10}`).FindAllString(string(text), -1); len(names) != 2 || names[0] != names[1] {
		t.Errorf("the ConfigMap and its reference: %v", names)
	}
}

// A kustomization names local, regular files below its directory. Anything that kustomize would fetch is refused first,
// in a base too.
func TestLocalOnly(t *testing.T) {
	secret := must.File(t, t.TempDir(), "secret", "apiVersion: v1")
	for name, c := range map[string]struct{ text, want string }{
		"http":                    {"resources:\n- http://127.0.0.1:1/x.yaml", "kustomization.yaml:2:3: \"http://127.0.0.1:1/x.yaml\" is not a local file"},
		"git":                     {"resources: [git@127.0.0.1:a/b]", "is not a local file"},
		"github":                  {"bases: ['github.com/a/b?ref=v1']", "is not a local file"},
		"forced git":              {"components: ['git::https://127.0.0.1:1/a/b']", "is not a local file"},
		"patch":                   {"patches: [{path: 'https://127.0.0.1:1/p.yaml', target: {kind: Service}}]", "is not a local file"},
		"file of a map":           {"configMapGenerator: [{name: a, files: ['a=https://127.0.0.1:1/f']}]", "is not a local file"},
		"by an alias":             {"commonAnnotations: {a: &a 'https://127.0.0.1:1/f'}\nresources: [*a]", "is not a local file"},
		"inline plug-in":          {"generators:\n- |\n  apiVersion: builtin\n  kind: ConfigMapGenerator\n  metadata: {name: a}\n  files:\n  - https://127.0.0.1:1/f", "is not a local file"},
		"plug-in":                 {"generators: [plugin.yaml]", "plugin.yaml:4:9: \"https://127.0.0.1:1/f\" is not a local file"},
		"base":                    {"resources: [base]", "base/kustomization.yaml:1:13: \"http:x\" is not a local file"},
		"link out":                {"resources: [link.yaml]", "is not in or below"},
		"fifo":                    {"resources: [fifo]", "not a regular file"},
		"large":                   {"configMapGenerator: [{name: a, files: [large]}]", "too large"},
		"alias to itself":         {"resources: &a [*a]", "kustomization.yaml: yaml: anchor"},
		"missing":                 {"resources: [none.yaml]", "none.yaml"},
		"plug-ins of a directory": {"transformers: [base]", "base\" is a directory"},
		"program":                 {"generators: [exec.yaml]", "unable to load"},
		"a chart's values":        {"helmCharts: [{name: a, repo: 'https://127.0.0.1:1'}]", "enable-helm"},
	} {
		dir := t.TempDir()
		for file, text := range map[string]string{"kustomization.yaml": c.text + "\n", "base/kustomization.yaml": "resources: ['http:x']\n",
			"plugin.yaml": "apiVersion: builtin\nkind: ConfigMapGenerator\nmetadata: {name: a}\nfiles: ['https://127.0.0.1:1/f']\n",
			"exec.yaml":   "apiVersion: a/v1\nkind: Tool\nmetadata: {name: a, annotations: {config.kubernetes.io/function: \"exec: {path: ./tool}\"}}\n",
			"large":       strings.Repeat("x", maxFile+1)} {
			must.OK(t, os.MkdirAll(filepath.Dir(filepath.Join(dir, file)), 0o700))
			must.OK(t, os.WriteFile(filepath.Join(dir, file), []byte(text), 0o600))
		}
		must.OK(t, os.Symlink(secret, filepath.Join(dir, "link.yaml")))
		must.OK(t, syscall.Mkfifo(filepath.Join(dir, "fifo"), 0o600))
		_, err := Render(dir)
		if err == nil || !strings.Contains(err.Error(), c.want) || hint.Of(err) == "" && name != "fifo" && name != "alias to itself" {
			t.Errorf("%s: %v, hint %q, want %q", name, err, hint.Of(err), c.want)
		}
	}
}

// Texts that are not paths may contain addresses.
func TestLocalTexts(t *testing.T) {
	for _, text := range []string{
		"configMapGenerator: [{name: a, literals: ['URL=https://example.com']}]\n",
		"commonAnnotations: {docs: https://example.com}\n",
		"patchesStrategicMerge:\n- |\n  spec: {url: https://example.com}\n  # https://example.com\n",
		"images: [{name: web, newName: 'github.com/a/b'}]\n",
	} {
		if err := local("kustomization.yaml", []byte(text)); err != nil {
			t.Errorf("%s: %v", text, err)
		}
	}
	if err := local("page.yaml", []byte("resources: ['https://example.com']\n")); err != nil {
		t.Error(err)
	}
}

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
