package mesh

import (
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"github.com/tare-mesh/tare/internal/metric"
	"github.com/tare-mesh/tare/test/difftest"
	"github.com/tare-mesh/tare/test/must"
)

// A certificate is renewed by a new root: the request has another private key each time.
func TestConsulRenewsCertificates(t *testing.T) {
	d := must.Get(Load("consul"))(t)
	of := ChangeContext{Control: map[string]ControlContext{"consul": {IP: "127.1.0.1", Ports: map[string]int{"http": 8500}}}, Secrets: func(name string) string { return "<" + name + ">" }}
	seen := map[string]bool{}
	for range 2 {
		r := must.Get(d.Local.Changes[metric.CertificateRenewed].Request.Render(of))(t)
		if d := difftest.Of("r.Method", r.Method, "PUT", "r.URL", r.URL, "http://127.1.0.1:8500/v1/connect/ca/configuration", `r.Header["X-Consul-Token"]`, r.Header["X-Consul-Token"], "<management>"); d != "" {
			t.Error(d)
		}
		var body struct {
			Provider string
			Config   struct{ PrivateKey string }
		}
		must.OK(t, json.Unmarshal([]byte(r.Body), &body))
		block, _ := pem.Decode([]byte(body.Config.PrivateKey))
		if block == nil || body.Provider != "consul" {
			t.Fatalf("the body is %s", r.Body)
		}
		must.Get(x509.ParseECPrivateKey(block.Bytes))(t)
		seen[body.Config.PrivateKey] = true
	}
	if len(seen) != 2 {
		t.Error("both requests have the same private key")
	}
}

// Consul starts a pod once a Service selects it. No application has a Service for the load, so the load gets one
// inside the mesh. Each service gets its protocol. Its CRDs of the Gateway API are installed unless the cluster has some.
func TestConsulEnrolment(t *testing.T) {
	d := must.Get(Load("consul"))(t)
	for _, inside := range []bool{true, false} {
		e := must.Get(d.Kubernetes.Enrol(Settings{}, "shop", Way{LoadInside: inside}))(t)
		selects := slices.ContainsFunc(e.Manifests, func(text string) bool {
			var service struct {
				Kind string
				Spec struct{ Selector map[string]string }
			}
			return yaml.Unmarshal([]byte(text), &service) == nil && service.Kind == "Service" && service.Spec.Selector["tare.dev/service"] == "load"
		})
		if selects != inside {
			t.Errorf("load inside %v: a Service selects it: %v", inside, selects)
		}
	}
	for _, inside := range []bool{true, false} {
		e := must.Get(d.Kubernetes.Enrol(Settings{}, "shop", Way{LoadInside: inside}))(t)
		text := strings.Join(e.Manifests, "\n---\n")
		refused, err := d.Kubernetes.RefusesPlaintext(Settings{}, "shop", Way{LoadInside: inside})
		if err != nil {
			t.Errorf("load inside %v: plaintext refused %v, %v, in\n%s", inside, refused, err, text)
		} else if d := difftest.Wrong("refused != inside", refused != inside, `strings.Contains(text, "mutualTLSMode: permissive") == inside`, strings.Contains(text, "mutualTLSMode: permissive") == inside, `strings.Contains(text, "allowEnablingPermissiveMutualTLS: true") == inside`, strings.Contains(text, "allowEnablingPermissiveMutualTLS: true") == inside); d != "" {
			t.Errorf("%s: load inside %v: plaintext refused %v, %v, in\n%s", d, inside, refused, err, text)
		}
	}
	e := must.Get(d.Kubernetes.Enrol(Settings{}, "shop", Way{LoadInside: true, Services: []ServiceProtocol{{"web", "http1"}, {"api", "grpc"}, {"db", "tcp"}}}))(t)
	protocols := map[string]string{}
	for documents := yaml.NewDecoder(strings.NewReader(strings.Join(e.Manifests, "\n---\n"))); ; {
		var o struct {
			Kind     string
			Metadata struct{ Name string }
			Spec     struct{ Protocol string }
		}
		if err := documents.Decode(&o); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatal(err)
		}
		if o.Kind == "ServiceDefaults" {
			protocols[o.Metadata.Name] = o.Spec.Protocol
		}
	}
	if want := map[string]string{"web": "http", "api": "grpc", "db": "tcp"}; !maps.Equal(protocols, want) {
		t.Errorf("protocols %v, want %v", protocols, want)
	}
	for whose, want := range map[string]bool{"consul": true, "cluster": false} {
		s := must.Get(d.Kubernetes.Complete(Settings{Hub: "registry.test/x", Options: map[string]string{"gatewayAPI": whose, "consul": "1.22.5"}}))(t)
		all := must.Get(d.Kubernetes.Releases(s, d.Kubernetes.InstallContext(s)))(t)
		text, _ := json.Marshal(all[0].Values)
		for _, part := range []string{fmt.Sprintf(`"manageExternalCRDs":%v`, want), `"image":"registry.test/x/consul:1.22.5"`} {
			if !strings.Contains(string(text), part) {
				t.Errorf("CRDs of %s: no %s in %s", whose, part, text)
			}
		}
	}
}
