package chart_test

import (
	"bytes"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/registry"
	"helm.sh/helm/v4/pkg/chart/v2/loader"
	v2util "helm.sh/helm/v4/pkg/chart/v2/util"
	helmregistry "helm.sh/helm/v4/pkg/registry"
	"helm.sh/helm/v4/pkg/repo/v1"

	"github.com/tare-mesh/tare/internal/base/hint"
	"github.com/tare-mesh/tare/kube/internal/chart"
	"github.com/tare-mesh/tare/test/difftest"
	"github.com/tare-mesh/tare/test/must"
)

// source writes a small chart: a ConfigMap whose content is a value, and a CRD outside the templates.
func source(t *testing.T) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "weigh")
	for name, content := range map[string]string{
		"Chart.yaml":            "apiVersion: v2\nname: weigh\nversion: 1.2.3\nappVersion: v7\n",
		"values.yaml":           "grams: 1\n",
		"values.schema.json":    `{"type": "object", "properties": {"grams": {"type": "integer"}}}`,
		"templates/config.yaml": "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: {{ .Release.Name }}\ndata:\n  grams: {{ .Values.grams | quote }}\n",
		"crds/scale.yaml": "apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\nmetadata:\n  name: scales.weigh.example\nspec:\n  group: weigh.example\n" +
			"  names: {kind: Scale, listKind: ScaleList, plural: scales, singular: scale}\n  scope: Namespaced\n" +
			"  versions: [{name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object}}}]\n",
	} {
		must.File(t, dir, name, content)
	}
	return dir
}

func packaged(t *testing.T) string {
	t.Helper()
	c := must.Get(loader.Load(source(t)))(t)
	return must.Get(v2util.Save(c, t.TempDir()))(t)
}

// repository serves the archive as a chart repository does.
func repository(t *testing.T) string {
	t.Helper()
	archive := packaged(t)
	dir := filepath.Dir(archive)
	index := must.Get(repo.IndexDirectory(dir, ""))(t)
	must.OK(t, index.WriteFile(filepath.Join(dir, "index.yaml"), 0o600))
	server := httptest.NewServer(http.FileServer(http.Dir(dir)))
	t.Cleanup(server.Close)
	return server.URL
}

// pushed is the chart in an OCI registry.
func pushed(t *testing.T) string {
	t.Helper()
	server := httptest.NewServer(registry.New(registry.Logger(log.New(io.Discard, "", 0))))
	t.Cleanup(server.Close)
	client := must.Get(helmregistry.NewClient(helmregistry.ClientOptPlainHTTP(), helmregistry.ClientOptWriter(io.Discard)))(t)
	content := must.Get(os.ReadFile(packaged(t)))(t)
	at := strings.TrimPrefix(server.URL, "http://") + "/charts/weigh"
	must.Get(client.Push(content, at+":1.2.3"))(t)
	return "oci://" + at
}

func TestRenderFromEverySource(t *testing.T) {
	for name, from := range map[string]chart.Source{
		"directory":  {Chart: source(t)},
		"archive":    {Chart: packaged(t), Version: "1.2.3"},
		"repository": {Chart: "weigh", Repo: repository(t), Version: "1.2.3"},
		"registry":   {Chart: pushed(t), Version: "1.2.3"},
	} {
		got, err := chart.New(nil, t.TempDir()).Render(t.Context(), chart.Release{Name: "one", Namespace: "scales", Source: from, Values: map[string]any{"grams": 42}})
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if len(got.CRDs) != 1 {
			t.Errorf("%s: %+v", name, got)
		} else if d := difftest.Of("got.Chart", got.Chart, "weigh", "got.Version", got.Version, "1.2.3", "got.AppVersion", got.AppVersion, "v7", "got.CRDs[0]", got.CRDs[0], "scales.weigh.example"); d != "" {
			t.Errorf("%s: %s: %+v", d, name, got)
		}
		if !strings.Contains(got.Manifest, `grams: "42"`) || !strings.Contains(got.Manifest, "name: one") {
			t.Errorf("%s: rendered\n%s", name, got.Manifest)
		}
	}
}

func TestRenderErrors(t *testing.T) {
	broken := source(t)
	must.OK(t, os.WriteFile(filepath.Join(broken, "templates", "broken.yaml"), []byte("{{ .Values.grams | nosuch }}"), 0o600))
	dependent := source(t)
	f := must.Get(os.OpenFile(filepath.Join(dependent, "Chart.yaml"), os.O_APPEND|os.O_WRONLY, 0))(t)
	must.Get(io.Copy(f, bytes.NewBufferString("dependencies: [{name: other, version: 1.0.0, repository: \"https://charts.invalid\"}]\n")))(t)
	must.OK(t, f.Close())
	for _, c := range []struct {
		name, message, hint string
		release             chart.Release
	}{
		{"no such path", "no such file", "oci://", chart.Release{Source: chart.Source{Chart: "/nonexistent/chart"}}},
		{"no chart", "Chart.yaml", "", chart.Release{Source: chart.Source{Chart: t.TempDir()}}},
		{"another version", "it is version 1.2.3", "", chart.Release{Source: chart.Source{Chart: source(t), Version: "9.9.9"}}},
		{"no repository", "127.0.0.1:1", "give charts on this machine", chart.Release{Source: chart.Source{Chart: "weigh", Repo: "http://127.0.0.1:1/charts"}}},
		{"not in the repository", "nosuch", "", chart.Release{Source: chart.Source{Chart: "nosuch", Repo: repository(t)}}},
		{"an invalid template", "nosuch", "", chart.Release{Source: chart.Source{Chart: broken}}},
		{"a value of the wrong type", "grams", "correct the values", chart.Release{Source: chart.Source{Chart: source(t)}, Values: map[string]any{"grams": "heavy"}}},
		{"a missing dependency", "other", "charts/", chart.Release{Source: chart.Source{Chart: dependent}}},
	} {
		c.release.Name, c.release.Namespace = "one", "scales"
		_, err := chart.New(nil, t.TempDir()).Render(t.Context(), c.release)
		if err == nil || !strings.Contains(err.Error(), c.message) {
			t.Errorf("%s: error %v, want %q in it", c.name, err, c.message)
			continue
		}
		if !strings.Contains(hint.Of(err), c.hint) {
			t.Errorf("%s: hint %q, want %q in it", c.name, hint.Of(err), c.hint)
		}
	}
}
