package mesh

import (
	"strings"
	"testing"

	"github.com/tare-mesh/tare/internal/metric"
	"github.com/tare-mesh/tare/test/must"
)

// A gateway is one proxy without TLS and without a control plane, and its process is the data plane.
func TestDefinitionAsGateway(t *testing.T) {
	for name, want := range map[string]string{
		"none":            "mesh none has no proxy on this machine",
		"envoy":           "mesh envoy encrypts between two sidecars",
		"envoy-xds":       "the control plane of mesh envoy-xds configures sidecars",
		"istio":           "mesh istio has no proxy on this machine",
		"nginx":           "",
		"haproxy":         "",
		"reference":       "",
		"traefik":         "",
		"envoy-tcp":       "mesh envoy-tcp encrypts between two sidecars",
		"envoy-plaintext": "",
	} {
		d, err := must.Get(Load(name))(t).Gateway("")
		if want != "" {
			must.Fail(t, err, want, name)
			continue
		}
		must.OK(t, err)
		task := d.Attribute(Task{Pod: "gateway", Service: "load", Container: "gateway"})
		if !d.AtGateway() || task.Plane != metric.Data || task.Role != RoleGateway || task.Component != "" || d.On(OnKubernetes) == nil {
			t.Errorf("%s: %+v", name, task)
		}
	}
}

// A configuration of the user replaces the definition's, and none of its counters is read.
func TestGatewayConfiguration(t *testing.T) {
	nginx := must.Get(Load("nginx"))(t)
	_, err := nginx.Gateway("server { listen 8080; }")
	must.Fail(t, err, "the configuration has no ${listen}")
	_, err = nginx.Gateway("listen ${lisen};")
	must.Fail(t, err, "there is no field ${lisen}")
	d := must.Get(nginx.Gateway("listen ${listen}; proxy_pass http://${upstream}; proxy_temp_path ${dir}; # $http_host"))(t)
	s := d.Local.Sidecar
	if d.Local.Verify.Counts() || s.Counters != nil || !s.PerListener() || !s.UsesDir() || s.ReadyKind() != ReadyTCP {
		t.Errorf("%+v", d.Local)
	}
	_, config, err := s.Render(SidecarContext{Listen: "127.0.0.1:80", Upstream: "127.0.0.1:81", Dir: "/run/x"})
	must.OK(t, err)
	if got := string(config); got != "listen 127.0.0.1:80; proxy_pass http://127.0.0.1:81; proxy_temp_path /run/x; # $http_host" {
		t.Error(got)
	}
}

// A definition file may be of a gateway.
func TestGatewayFile(t *testing.T) {
	const text = "name: mine\nlocal:\n  place: gateway\n  sidecar: {command: [mine, \"${listen}\", \"${upstream}\"]}\n"
	if d := must.Get(Decode("mine.yaml", []byte(text)))(t); !d.AtGateway() || d.Tasks[0].Role != RoleGateway {
		t.Errorf("%+v", d)
	}
	_, err := Decode("mine.yaml", []byte(strings.Replace(text, "gateway", "gatway", 1)))
	must.Fail(t, err, "expected sidecar, gateway")
}
