package mesh

import (
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/tare-mesh/tare/internal/base/strict"
	"github.com/tare-mesh/tare/test/difftest"
	"github.com/tare-mesh/tare/test/must"
)

// ordered is a mesh with a control plane of two processes.
const ordered = `name: ordered
description: ordered
provides: {mtls: true}
local:
  control:
  - name: store
    program: store
    ports: [api]
    ready: [{url: "http://{{.IP}}:{{.Ports.api}}/"}]
  - name: server
    program: server
    ports: [http, xds]
    args: [-config, "{{.ConfigPath}}"]
    config: |
      {"store": "{{.Control.store.IP}}", "token": "{{.Secret "admin"}}",
       "services": [{{range .Services}}{{json .Name}}, {{end}}null]}
    ready: [{url: "http://{{.IP}}:{{.Ports.http}}/ready", header: {X-Token: '{{.Secret "admin"}}'}}]
    version: {url: "http://{{.IP}}:{{.Ports.http}}/version", field: version}
  certificates:
    identity: spiffe://example.test/{{.Service}}
    roots: {url: "http://{{.Control.server.IP}}/roots"}
    issue: {url: "http://{{.Control.server.IP}}/leaf/{{.Service}}"}
    chain: cert
    key: key
  sidecar:
    program: envoy
    choosePorts: true
    args: [-c, "{{.ConfigPath}}"]
    register: [{url: "http://{{.Control.server.IP}}/register", body: '{"port": {{.Port}}}'}]
    bootstrap: {program: server, args: [bootstrap, "{{.Pod}}"], env: {TOKEN: "{{.Secret .Pod}}"}}
    inboundListener: in-{{.Port}}
    outboundListener: out-{{.Out.Service}}-{{.Out.Port}}
    outboundEndpoints: members-{{.Out.Service}}
  verify: {unit: request, inbound: a, outbound: b, inboundHandshakes: c, outboundHandshakes: d, denied: "{{.Inbound.Protocol}}"}
`

func TestControlPlane(t *testing.T) {
	d := must.Get(Decode("ordered.yaml", []byte(ordered)))(t)
	if got, want := d.Local.Programs(), []string{"envoy", "server", "store"}; !slices.Equal(got, want) {
		t.Errorf("programs are %q, want %q", got, want)
	}
	secrets := Secrets(func(name string) string { return "<" + name + ">" })
	control := map[string]ControlContext{"store": {IP: "127.1.0.1"}}
	server := ControlContext{Name: "server", IP: "127.1.0.2", Ports: map[string]int{"http": 1, "xds": 2}, ConfigPath: "/c", Control: control,
		Services: []ServiceContext{{Name: "echo"}}, Secrets: secrets}
	args, config, err := d.Local.Control[1].Render(server)
	if err != nil || !slices.Equal(args, []string{"-config", "/c"}) {
		t.Errorf("args are %q, %v", args, err)
	}
	var decoded struct {
		Store, Token string
		Services     []*string
	}
	if err := json.Unmarshal(config, &decoded); err != nil || len(decoded.Services) != 2 {
		t.Errorf("the configuration is %s, %v", config, err)
	} else if d := difftest.Of("decoded.Store", decoded.Store, "127.1.0.1", "decoded.Token", decoded.Token, "<admin>"); d != "" {
		t.Errorf("%s: the configuration is %s, %v", d, config, err)
	}
	r, err := d.Local.Control[1].Ready[0].Render(server)
	if err != nil {
		t.Errorf("the request is %+v, %v", r, err)
	} else if d := difftest.Of("r.Method", r.Method, "GET", "r.URL", r.URL, "http://127.1.0.2:1/ready", `r.Header["X-Token"]`, r.Header["X-Token"], "<admin>"); d != "" {
		t.Errorf("%s: the request is %+v, %v", d, r, err)
	}
	control["server"] = server
	ctx := SidecarContext{Pod: "echo-0", Service: "echo", Port: 7, Inbound: &Inbound{Port: 7}, Control: control, Secrets: secrets,
		Outbound: []Outbound{{Service: "back", Port: 8}}}
	r, err = d.Local.Sidecar.Register[0].Render(ctx)
	if err != nil {
		t.Errorf("the request is %+v, %v", r, err)
	} else if d := difftest.Of("r.Method", r.Method, "PUT", "r.URL", r.URL, "http://127.1.0.2/register", "r.Body", r.Body, `{"port": 7}`); d != "" {
		t.Errorf("%s: the request is %+v, %v", d, r, err)
	}
	args, env, err := d.Local.Sidecar.Bootstrap.Render(ctx)
	if err != nil || !slices.Equal(args, []string{"bootstrap", "echo-0"}) || !slices.Equal(env, []string{"TOKEN=<echo-0>"}) {
		t.Errorf("the bootstrap is %q %q, %v", env, args, err)
	}
	names, err := d.Local.Sidecar.Listeners(ctx)
	if err != nil {
		t.Errorf("the listeners are %+v, %v", names, err)
	} else if d := difftest.Of("names.Inbound", names.Inbound, "in-7", `names.Outbound["back"]`, names.Outbound["back"], "out-back-8", `names.Endpoints["back"]`, names.Endpoints["back"], "members-back"); d != "" {
		t.Errorf("%s: the listeners are %+v, %v", d, names, err)
	}
	id, err := d.Local.Certificates.IdentityOf(CertificateContext{Service: "echo"})
	if err != nil || id != "spiffe://example.test/echo" {
		t.Errorf("the identity is %q, %v", id, err)
	}
}

// The default names of listeners equal the names in embedded definitions.
func TestListenersByDefault(t *testing.T) {
	names, err := Sidecar{}.Listeners(SidecarContext{Inbound: &Inbound{}, Outbound: []Outbound{{Service: "back"}}})
	if err != nil || len(names.Endpoints) != 0 {
		t.Errorf("the listeners are %+v, %v", names, err)
	} else if d := difftest.Of("names.Inbound", names.Inbound, "inbound", `names.Outbound["back"]`, names.Outbound["back"], "outbound-back"); d != "" {
		t.Errorf("%s: the listeners are %+v, %v", d, names, err)
	}
}

func TestBrokenControlPlanes(t *testing.T) {
	for change, want := range map[[2]string]string{
		{"name: server", "name: store"}:                                                   `local.control[1].name: there are two called "store"`,
		{"- name: store", "- name: St"}:                                                   `local.control[0].name: found "St"`,
		{"    program: store\n", ""}:                                                      "local.control[0].program: missing",
		{"    ready: [{url: \"http://{{.IP}}:{{.Ports.api}}/\"}]\n", ""}:                  "local.control[0].ready: missing",
		{"{{.Ports.api}}", "{{.Ports.http}}"}:                                             `map has no entry for key "http"`,
		{"{{.Control.store.IP}}", "{{.Control.other.IP}}"}:                                `map has no entry for key "other"`,
		{"{{.IP}}:{{.Ports.http}}/ready", "{{.Pod}}/ready"}:                               "can't evaluate field Pod",
		{", field: version}", "}"}:                                                        "local.control[1].version.field: missing",
		{"    chain: cert\n", ""}:                                                         "local.certificates.chain: missing",
		{"/leaf/{{.Service}}", "/leaf/{{.Pod}}"}:                                          "can't evaluate field Pod",
		{"provides: {mtls: true}", "provides: {}"}:                                        "local.certificates: the mesh does not provide mtls",
		{"    choosePorts: true\n", "    config: x\n"}:                                    "local.sidecar.config: the bootstrap prints the configuration",
		{"bootstrap: {program: server, ", "bootstrap: {"}:                                 "local.sidecar.bootstrap.program: missing",
		{"{TOKEN: \"{{.Secret .Pod}}\"}", "{TOKEN: \"{{.Secret .Pods}}\"}"}:               "can't evaluate field Pods",
		{"register: [{url: \"http://{{.Control.server.IP}}/register\", ", "register: [{"}: "local.sidecar.register[0].url: missing",
		{"out-{{.Out.Service}}", "out-{{.Service.Name}}"}:                                 "local.sidecar.outboundListener: invalid template",
		{`denied: "{{.Inbound.Protocol}}"`, `denied: "{{.Inbound.Nothing}}"`}:             "can't evaluate field Nothing",
	} {
		if strings.Count(ordered, change[0]) == 0 {
			t.Errorf("%q is not in the definition", change[0])
		}
		_, err := Decode("ordered.yaml", []byte(strings.Replace(ordered, change[0], change[1], 1)))
		var problems strict.Problems
		if !errors.As(err, &problems) || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q in it", change[0], err, want)
		}
	}
}
