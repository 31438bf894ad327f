package mesh

import (
	"maps"
	"reflect"
	"strings"
	"testing"

	"github.com/tare-mesh/tare/internal/base/hint"
	"github.com/tare-mesh/tare/test/must"
)

// valuesOf returns the values of the charts that have settings of the sidecars.
func valuesOf(t *testing.T, name string, s Settings) (map[string]any, error) {
	t.Helper()
	d, err := Load(name)
	must.OK(t, err)
	s, err = d.Kubernetes.Complete(s)
	if err != nil {
		return nil, err
	}
	releases := must.Get(d.Kubernetes.Releases(s, d.Kubernetes.InstallContext(s)))(t)
	for _, r := range releases {
		if r.Release == d.Kubernetes.ProxyValues.Release {
			return r.Values, nil
		}
	}
	t.Fatalf("%s has no release %q", name, d.Kubernetes.ProxyValues.Release)
	return nil, nil
}

func valueAt(values map[string]any, path string) any {
	var found any = values
	for key := range strings.SplitSeq(path, ".") {
		m, _ := found.(map[string]any)
		found = m[key]
	}
	return found
}

func TestProxySettingsInCharts(t *testing.T) {
	all := ProxySettings{Image: "registry.test/proxy:1", Concurrency: 3, Environment: map[string]string{"A": "1"},
		Requests: map[string]string{"cpu": "30m", "memory": "64Mi"}, Limits: map[string]string{"memory": "256Mi"}}
	resources := ProxySettings{Requests: all.Requests, Limits: all.Limits}
	for name, c := range map[string]struct {
		settings ProxySettings
		want     map[string]any
	}{
		"istio": {all, map[string]any{
			"global.proxy.image": "registry.test/proxy:1", "meshConfig.defaultConfig.concurrency": 3, "meshConfig.defaultConfig.proxyMetadata": map[string]any{"A": "1"},
			"global.proxy.resources": map[string]any{"requests": map[string]any{"cpu": "30m", "memory": "64Mi"}, "limits": map[string]any{"memory": "256Mi"}},
			"global.istioNamespace":  "istio-system", // the definition's
		}},
		"linkerd": {resources, map[string]any{"proxy.resources": map[string]any{
			"cpu": map[string]any{"request": "30m"}, "memory": map[string]any{"request": "64Mi", "limit": "256Mi"}}}},
		"consul": {ProxySettings{Concurrency: 3, Limits: map[string]string{"cpu": "2"}}, map[string]any{
			"connectInject.sidecarProxy": map[string]any{"concurrency": 3, "resources": map[string]any{"limits": map[string]any{"cpu": "2"}}}, "connectInject.enabled": true}},
	} {
		values, err := valuesOf(t, name, Settings{Proxy: c.settings})
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		for path, want := range c.want {
			if got := valueAt(values, path); !reflect.DeepEqual(got, want) {
				t.Errorf("%s: %s is %v, want %v", name, path, got, want)
			}
		}
	}
	// The user's values go over them, and without settings the charts keep their own.
	own := map[string]map[string]any{"istiod": {"meshConfig": map[string]any{"defaultConfig": map[string]any{"concurrency": 5}}}}
	values, err := valuesOf(t, "istio", Settings{Proxy: all, Values: own})
	if got := valueAt(values, "meshConfig.defaultConfig.concurrency"); err != nil || got != 5 {
		t.Errorf("concurrency %v, %v", got, err)
	}
	if values, err = valuesOf(t, "istio", Settings{}); err != nil || valueAt(values, "global.proxy") != nil || valueAt(values, "meshConfig.defaultConfig.concurrency") != nil {
		t.Errorf("without settings: %v, %v", values, err)
	}
}

// A pod has annotations for its own sidecar. One without its setting is left out.
func TestPodAnnotations(t *testing.T) {
	settings := ProxySettings{Concurrency: 1, Requests: map[string]string{"cpu": "190m", "memory": "74Mi"}, Limits: map[string]string{"memory": "128Mi"}}
	for name, want := range map[string]map[string]string{
		"istio":         {"sidecar.istio.io/proxyCPU": "190m", "sidecar.istio.io/proxyMemory": "74Mi", "sidecar.istio.io/proxyMemoryLimit": "128Mi", "proxy.istio.io/config": "concurrency: 1"},
		"linkerd":       {"config.linkerd.io/proxy-cpu-request": "190m", "config.linkerd.io/proxy-memory-request": "74Mi", "config.linkerd.io/proxy-memory-limit": "128Mi"},
		"consul":        {"consul.hashicorp.com/sidecar-proxy-cpu-request": "190m", "consul.hashicorp.com/sidecar-proxy-memory-request": "74Mi", "consul.hashicorp.com/sidecar-proxy-memory-limit": "128Mi"},
		"istio-ambient": {},
	} {
		if got := must.Get(Load(name))(t).Kubernetes.ProxyValues.PodAnnotations(settings); !maps.Equal(got, want) {
			t.Errorf("%s: %v, want %v", name, got, want)
		}
	}
}

func TestProxySettingsThatCannotBe(t *testing.T) {
	for want, c := range map[string]struct {
		mesh     string
		settings ProxySettings
		advice   string
	}{
		"the mesh has no setting concurrency of its sidecars on kubernetes": {"linkerd", ProxySettings{Concurrency: 2}, "it has limits.cpu, limits.memory, requests.cpu, requests.memory; or write options or values"},
		"the mesh has no setting image of its sidecars on kubernetes":       {"istio-ambient", ProxySettings{Image: "x"}, "write options or values"},
		"concurrency is 5000":                         {"istio", ProxySettings{Concurrency: 5000}, "expected 1 to 1024 worker threads"},
		`"A B" is no name of an environment variable`: {"istio", ProxySettings{Environment: map[string]string{"A B": "1"}}, "use letters, digits and _"},
	} {
		if _, err := valuesOf(t, c.mesh, Settings{Proxy: c.settings}); err == nil || err.Error() != want || hint.Of(err) != c.advice {
			t.Errorf("%s: %v (%s)", want, err, hint.Of(err))
		}
	}
}
