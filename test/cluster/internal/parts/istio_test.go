package parts

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tare-mesh/tare/test/must"
)

func TestIstioOfTheRepository(t *testing.T) {
	i := must.Get(FindIstio("."))(t)
	sources := t.TempDir()
	must.OK(t, os.WriteFile(filepath.Join(sources, "VERSION"), []byte("9.8\n"), 0o600))
	tag, err := i.tag(sources)
	if err != nil || !strings.HasPrefix(tag, "9.8.0-dev.") {
		t.Errorf("tag %q, %v; want 9.8.0-dev. and the revision that go.mod pins", tag, err)
	}
	one := must.Get(i.Cached("/cache", "envoy1"))(t)
	if other, err := i.Cached("/cache", "envoy2"); err != nil || other == one {
		t.Errorf("with another Envoy the cache has %s too, %v", other.Dir, err)
	}
}

// TestModulesInCommon checks that a module of both builds has one version: the compiler's cache then holds its
// packages once. With versions of their own, Istio compiled the Kubernetes client a second time.
func TestModulesInCommon(t *testing.T) {
	s := must.Get(Find("."))(t)
	i := must.Get(FindIstio("."))(t)
	const replaced = "v0.0.0" // Kubernetes requires its own parts so
	common := 0
	for module, version := range i.versions {
		switch other := s.versions[module]; other {
		case "", replaced:
		case version:
			common++
		default:
			t.Errorf("%s: parts/go.mod has %s, istio/go.mod %s; require the newer one in both", module, other, version)
		}
	}
	if common < 50 {
		t.Errorf("%d modules in common", common)
	}
}

func TestIstioTagOfARelease(t *testing.T) {
	sources := t.TempDir()
	must.OK(t, os.WriteFile(filepath.Join(sources, "VERSION"), []byte("1.31\n"), 0o600))
	i := Istio{module{versions: map[string]string{istioModule: "v1.31.2"}}}
	if tag, err := i.tag(sources); err != nil || tag != "1.31.2" {
		t.Errorf("got %q, %v", tag, err)
	}
}

func TestNotTheModuleOfIstio(t *testing.T) {
	dir := t.TempDir()
	must.OK(t, os.MkdirAll(filepath.Join(dir, "istio"), 0o700))
	must.OK(t, os.WriteFile(filepath.Join(dir, "istio", "go.mod"), []byte("module m\n"), 0o600))
	if _, err := FindIstio(dir); err == nil || !strings.Contains(err.Error(), "pins no istio.io/istio") {
		t.Errorf("got %v", err)
	}
}

func TestChartIsMadeAsIfReleased(t *testing.T) {
	from, to := t.TempDir(), filepath.Join(t.TempDir(), "charts", "base")
	const values = "version: of something else\nglobal:\n  hub: registry.istio.io/testing\n  tag: latest\nproxy: {tag: \"\"}\n"
	for name, content := range map[string]string{
		"Chart.yaml":             "apiVersion: v2\nname: base\n# filled in\nversion: 1.0.0\nappVersion: 1.0.0\n",
		"values.yaml":            values,
		"templates/crds.yaml":    "{{ .Files }}\n",
		"files/crd-all.gen.yaml": "kind: CustomResourceDefinition\n",
	} {
		path := filepath.Join(from, name)
		must.OK(t, os.MkdirAll(filepath.Dir(path), 0o755))
		must.OK(t, os.WriteFile(path, []byte(content), 0o444))
	}
	must.OK(t, istioLines.copy(to, from, "1.31.0-dev.abc"))
	got, err := os.ReadFile(filepath.Join(to, "Chart.yaml"))
	if want := "apiVersion: v2\nname: base\n# filled in\nversion: 1.31.0-dev.abc\nappVersion: 1.31.0-dev.abc\n"; err != nil || string(got) != want {
		t.Errorf("got %q, %v", got, err)
	}
	got, err = os.ReadFile(filepath.Join(to, "values.yaml"))
	if want := "version: of something else\nglobal:\n  hub: tare.test/istio\n  tag: 1.31.0-dev.abc\nproxy: {tag: \"\"}\n"; err != nil || string(got) != want {
		t.Errorf("got %q, %v", got, err)
	}
	if _, err := os.Stat(filepath.Join(to, "files", "crd-all.gen.yaml")); err != nil {
		t.Error(err)
	}
}

// What only Istio's Envoy has is taken out of the bootstrap, and nothing else. A template in which it is not to be found as
// it is known is an error, and no image that fails when it runs.
func TestStockBootstrap(t *testing.T) {
	dir := t.TempDir()
	from, to := filepath.Join(dir, "from"), filepath.Join(dir, "to")
	const before, after = "\"bootstrap_extensions\": [\n    ", "{\n      \"name\": \"envoy.bootstrap.internal_listener\"\n    }],\n{{- if .metadata_discovery }}\n{\"prefix\": \"workload_discovery\"},\n{{- end }}\n"
	const extension = "{{- if .metadata_discovery }}\n    {\n      \"name\": \"metadata_discovery\",\n      \"typed_config\": {\"value\": {}}\n    },\n    {{- end }}\n    "
	must.OK(t, os.WriteFile(from, []byte(before+extension+after), 0o600))
	must.OK(t, stockBootstrap(to, from))
	if got, err := os.ReadFile(to); err != nil || string(got) != before+after {
		t.Errorf("got %s, %v", got, err)
	}
	if err := stockBootstrap(to, to); err == nil {
		t.Error("a template without the extension was taken")
	}
}
