package mesh

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"github.com/tare-mesh/tare/internal/base/difftest"
	"github.com/tare-mesh/tare/internal/base/must"
)

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
