package meshes

import (
	"context"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"maps"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tare-mesh/tare/internal/experiment/mesh"
	"github.com/tare-mesh/tare/test/must"
)

func contains(t *testing.T, network, ip string) bool {
	t.Helper()
	prefix := must.Get(netip.ParsePrefix(network))(t)
	addr := must.Get(netip.ParseAddr(ip))(t)
	return prefix.Contains(addr)
}

func TestCertificates(t *testing.T) {
	c := must.Get(issueCertificates("linkerd"))(t)
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM([]byte(c.TrustAnchor)) {
		t.Fatal("the trust anchor is not PEM")
	}
	block, _ := pem.Decode([]byte(c.Issuer))
	issuer := must.Get(x509.ParseCertificate(block.Bytes))(t)
	if _, err := issuer.Verify(x509.VerifyOptions{Roots: roots, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageAny}}); err != nil {
		t.Errorf("the issuer is not under the anchor: %v", err)
	}
	if !issuer.IsCA || issuer.Subject.CommonName != "identity.linkerd.cluster.local" || !issuer.MaxPathLenZero {
		t.Errorf("the issuer is %+v", issuer.Subject)
	}
	key, _ := pem.Decode([]byte(c.IssuerKey))
	if _, err := x509.ParseECPrivateKey(key.Bytes); err != nil {
		t.Error(err)
	}
}

func TestFindChart(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"istio-control/istio-discovery/Chart.yaml:name: istiod", "base/Chart.yaml:name: base", "base/charts/base/Chart.yaml:name: base",
		"linkerd-crds-2026.8.3.tgz:", "linkerd-crds-2026.9.1.tgz:", "linkerd-crds-extra-1.0.0.tgz:", "consul-2.0.0.tgz:", "one/twice/Chart.yaml:name: twice", "two/twice/Chart.yaml:name: twice"} {
		path, text, _ := strings.Cut(name, ":")
		must.File(t, dir, path, text+"\n")
	}
	for _, c := range []struct{ name, version, want, message string }{
		{"istiod", "1.0.0", "istio-control/istio-discovery", ""},
		{"base", "1.0.0", "base", ""},
		{"linkerd-crds", "2026.9.1", "linkerd-crds-2026.9.1.tgz", ""},
		{"linkerd-crds", "2026.10.1", "", "only other versions exist"},
		{"consul", "9.9.9", "consul-2.0.0.tgz", ""},
		{"twice", "", "", "several exist"},
		{"none", "", "", "file does not exist"},
	} {
		got, err := findChart(dir, c.name, c.version)
		if c.message != "" {
			must.Fail(t, err, c.message, c.name, c.version)
			continue
		}
		if rel, _ := filepath.Rel(dir, got); err != nil || rel != c.want {
			t.Errorf("%s %s: %q, %v, want %q", c.name, c.version, rel, err, c.want)
		}
	}
}

// The shipped definitions render with charts of the real names.
func TestRenderShipped(t *testing.T) {
	for name, charts := range map[string][]string{
		"linkerd": {"linkerd-crds", "linkerd-control-plane"}, "istio": {"base", "istiod"}, "istio-ambient": {"base", "istiod", "cni", "ztunnel"},
		"istio-ambient-l4": {"base", "istiod", "cni", "ztunnel"}, "consul": {"consul"},
		"envoy-gateway": {"gateway-helm"},
	} {
		dir := t.TempDir()
		for _, c := range charts {
			for file, text := range map[string]string{
				"Chart.yaml":            "apiVersion: v2\nname: " + c + "\nversion: 1.0.0\n",
				"templates/values.yaml": "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: values-{{ .Chart.Name }}}\ndata:\n  values: {{ .Values | toJson | quote }}\n---\napiVersion: v1\nkind: Secret\nmetadata: {name: s}\nstringData: {key: very-secret}\n",
			} {
				path := filepath.Join(dir, c, file)
				must.OK(t, os.MkdirAll(filepath.Dir(path), 0o700))
				must.OK(t, os.WriteFile(path, []byte(text), 0o600))
			}
		}
		d := must.Get(mesh.Load(name))(t)
		m := must.Get(New(nil, d, mesh.Settings{Profile: mesh.ProfileHA, Hub: "registry.test/x"}, Options{Charts: dir}))(t)
		all, err := m.Rendered(t.Context())
		if err != nil || len(all) != len(charts) {
			t.Errorf("%s: %d charts, %v", name, len(all), err)
			continue
		}
		text := ""
		for _, r := range all {
			text += r.Manifest
		}
		if strings.Contains(text, "very-secret") || strings.Contains(text, "PRIVATE") {
			t.Errorf("%s: a secret is rendered", name)
		}
		for _, want := range map[string][]string{
			"linkerd":       {`"controllerReplicas":3`, `"identityTrustAnchorsPEM":"-----BEGIN`, `"clusterNetworks":"10.0.0.0/8,100.64.0.0/10`, `"webhookFailurePolicy":"Fail"`},
			"istio":         {`"replicaCount":3`, `"hub":"registry.test/x"`, `ssl`, "podAntiAffinity"},
			"istio-ambient": {`"PILOT_ENABLE_AMBIENT":"true"`, `"profile":"ambient"`},
			"envoy-gateway": {`"imageRegistry":"registry.test/x"`, `"replicas":3`, `"deploy":{"type":"GatewayNamespace"}`},
			"consul":        {`"replicas":3`, `"transparentProxy":{"defaultEnabled":true}`},
		}[name] {
			if !strings.Contains(text, want) {
				t.Errorf("%s: rendered without %s:\n%s", name, want, text)
			}
		}
	}
}

func TestNewErrors(t *testing.T) {
	envoy := must.Get(mesh.Load("envoy"))(t)
	if _, err := New(nil, envoy, mesh.Settings{}, Options{}); !errors.Is(err, errors.ErrUnsupported) {
		t.Errorf("a mesh for the local platform: %v", err)
	}
	none := must.Get(mesh.Load("none"))(t)
	m := must.Get(New(nil, none, mesh.Settings{}, Options{}))(t)
	if _, err := m.Install(context.Background()); err != nil {
		t.Errorf("no mesh: %v", err)
	}
	if checks, err := m.Verify(context.Background(), Target{Namespace: "x"}); err != nil || len(checks) != 0 {
		t.Errorf("no mesh: %v, %v", checks, err)
	}
}

// The testdata is recorded from real proxies.
func TestCountersOfRealProxies(t *testing.T) {
	for _, c := range []struct {
		mesh, role, file string
		want             map[string]float64 // the largest counter, by direction unless inbound, and proof
	}{
		{"linkerd", "sidecar", "linkerd-proxy.txt", map[string]float64{"l7": 12025, "mtls": 12020, "path": 2, "outbound l7": 12025, "outbound mtls": 12025, "outbound path": 1, "telemetry": 24209}},
		{"consul", "sidecar", "consul-dataplane.txt", map[string]float64{mesh.ProvesL7: 1865, mesh.ProvesMTLS: 7, mesh.ProvesPath: 14}},
		// Of a sidecar on this machine, which Consul configures by the same xDS.
		{"consul", "sidecar", "consul-upstream.txt", map[string]float64{mesh.ProvesL7: 372, mesh.ProvesMTLS: 5, "outbound l7": 370, "outbound mtls": 3, "outbound path": 3}},
		// Of Consul's dataplane under transparent proxying: a caller in gRPC, and then load from outside of the mesh.
		{"consul", "sidecar", "consul-grpc.txt", map[string]float64{mesh.ProvesL7: 700, mesh.ProvesMTLS: 1, "outbound l7": 700, "outbound mtls": 1, "outbound path": 16}},
		{"consul", "sidecar", "consul-permissive.txt", map[string]float64{mesh.ProvesL7: 0, mesh.ProvesMTLS: 0, mesh.ProvesPath: 4, "outbound l7": 300, "outbound mtls": 1, "outbound path": 1}},
		{"istio-ambient", "node-proxy", "ztunnel.txt", map[string]float64{mesh.ProvesPath: 276, mesh.ProvesMTLS: 261}},
		{"istio-ambient", "waypoint", "waypoint.txt", map[string]float64{mesh.ProvesL7: 24090, mesh.ProvesMTLS: 2}},
	} {
		text := must.Get(os.ReadFile(filepath.Join("testdata", c.file)))(t)
		families, err := parseMetrics(text)
		if err != nil {
			t.Fatalf("%s: %v", c.file, err)
		}
		d := must.Get(mesh.Load(c.mesh))(t)
		best := map[string]float64{}
		for _, x := range d.Kubernetes.Proxies {
			for _, counter := range x.Counters {
				if x.Role == c.role {
					key := strings.TrimPrefix(counter.Way()+" "+counter.Proves, mesh.WayIn+" ")
					best[key] = max(best[key], sum(families, counter))
				}
			}
		}
		for proves, want := range c.want {
			if best[proves] != want {
				t.Errorf("%s: %s is %v, want %v", c.file, proves, best[proves], want)
			}
		}
	}
}

// The connections of a workload in a real ztunnel: those that it opened, and those to it, also from outside the mesh.
func TestConnectionsOfRealZtunnel(t *testing.T) {
	text := must.Get(os.ReadFile(filepath.Join("testdata", "ztunnel.txt")))(t)
	families := must.Get(parseMetrics(text))(t)
	for _, name := range []string{"istio-ambient", "istio-ambient-l4"} {
		d := must.Get(mesh.Load(name))(t)
		got := map[string]float64{}
		for _, c := range d.Kubernetes.Proxies[0].Connections {
			for _, workload := range []string{"client", "front", "back", "waypoint"} {
				got[c.Way()+" "+workload] = sum(families, c.Of("shop", workload))
			}
		}
		want := map[string]float64{"outbound client": 133, "outbound front": 32, "outbound back": 0, "outbound waypoint": 0,
			"inbound client": 0, "inbound front": 79, "inbound back": 32, "inbound waypoint": 0}
		if !maps.Equal(got, want) {
			t.Errorf("%s: %v, want %v", name, got, want)
		}
	}
}
