package experiment_test

import (
	"path/filepath"
	"slices"
	"testing"

	"github.com/tare-mesh/tare/internal/experiment"
	"github.com/tare-mesh/tare/test/difftest"
	"github.com/tare-mesh/tare/test/must"
)

// A sidecar that is any program is a mesh of the file, and may have variants.
func TestOwnSidecar(t *testing.T) {
	e := variantsOf(t, `factors: {mesh: [none, my-proxy, my-proxy-2]}
meshes:
  my-proxy: {sidecar: {command: [./my-proxy, --listen, "${listen}", --to, "${upstream}"], ready: /healthz}, environment: {A: "1"}}
  my-proxy-2: {from: my-proxy, arguments: [--threads=2]}
`)
	sameAfterRendering(t, e, withMeshes())
	d := must.Get(e.Definition("my-proxy-2", nil))(t)
	s := d.Local.Sidecar
	if want := []string{"--listen", "{{.Listen}}", "--to", "{{.Upstream}}", "--threads=2"}; !slices.Equal(s.Args, want) {
		t.Errorf("arguments %q, want %q", s.Args, want)
	}
	if want, _ := filepath.Abs("my-proxy"); s.Program != want {
		t.Errorf("%+v", d)
	} else if differ := difftest.Of("s.Ready", s.Ready, "/healthz", `s.Environment["A"]`, s.Environment["A"], "1", "d.From", d.From, "my-proxy"); differ != "" {
		t.Errorf("%s: %+v", differ, d)
	}
}

// A gateway is any program, or the proxy of another mesh, and may have variants.
func TestOwnGateway(t *testing.T) {
	e := variantsOf(t, `factors: {mesh: [none, mine, mine-2, front, front-2]}
meshes:
  mine: {gateway: {command: [./mine, "${listen}", "${upstream}", "${config}"], config: "x"}}
  mine-2: {from: mine, arguments: [-v]}
  front: {from: nginx, gateway: {}}
  front-2: {from: haproxy, gateway: {config: "bind ${listen}"}, options: {mtls: false}}
`)
	sameAfterRendering(t, e, withMeshes())
	for _, name := range []string{"mine", "mine-2", "front", "front-2"} {
		d := must.Get(e.Definition(name, withMeshes().Definitions))(t)
		if !d.AtGateway() || d.Name != name {
			t.Errorf("%s: %+v", name, d)
		}
	}
	if d := must.Get(e.Definition("front-2", withMeshes().Definitions))(t); d.Local.Sidecar.Config != "bind {{.Listen}}" {
		t.Error(d.Local.Sidecar.Config)
	}
	if d := must.Get(e.Definition("mine-2", nil))(t); d.Local.Sidecar.Config != "x" || !slices.Contains(d.Local.Sidecar.Args, "-v") {
		t.Errorf("%+v", d.Local.Sidecar)
	}
}

func TestOwnSidecarMistakes(t *testing.T) {
	for text, want := range map[string]string{
		`nginx: {sidecar: {command: [x, "${listen}"]}}`: `there is a mesh "nginx" already`,
		`mine: {sidecar: {command: [x]}}`:               `no word contains ${listen}`,
		`mine: {sidecar: {command: []}}`:                `it has no command`,
		`mine: {sidecar: {command: [x, "${listen}"], counters: {format: prometheus, url: "http://${admin}/"}}}`:     `counters.requests is missing`,
		`mine: {sidecar: {command: [x, "${listen}"], counters: {format: prometheus, requests: r}}}`:                 `counters have neither a url nor a socket`,
		`mine: {sidecar: {command: [x, "${listen}"], counters: {format: nginx, socket: "${socket}", requests: r}}}`: `counters.url is missing: the format nginx is read by HTTP`,
		`mine: {sidecar: {command: [x, "${lisen}"]}}`:                                                               `there is no field ${lisen}`,
		`mine: {gateway: {}}`:                                                                `it has no command`,
		`mine: {from: envoy, gateway: {}}`:                                                   `mesh envoy encrypts between two sidecars`,
		`mine: {from: nginx, gateway: {command: [x, "${listen}"]}}`:                          `with from the gateway takes only config`,
		`mine: {from: nginx, gateway: {config: "listen 80;"}}`:                               `the configuration has no ${listen}`,
		`mine: {sidecar: {command: [x, "${listen}"]}, gateway: {command: [x, "${listen}"]}}`: `both a sidecar and a gateway`,
		`mine: {from: envoy, sidecar: {command: ["${listen}"]}}`:                             `both from and a sidecar`,
	} {
		_, err := experiment.Parse("x.yaml", []byte(header+"factors: {mesh: [none, envoy]}\nmeshes:\n  "+text+"\n"), withMeshes())
		must.Fail(t, err, want, text)
	}
}
