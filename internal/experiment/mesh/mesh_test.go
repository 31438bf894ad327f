package mesh

import (
	"errors"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/tare-mesh/tare/internal/base/hint"
	"github.com/tare-mesh/tare/internal/base/strict"
	"github.com/tare-mesh/tare/internal/metric"
	"github.com/tare-mesh/tare/test/must"
)

func TestBuiltin(t *testing.T) {
	want, err := filepath.Glob("definitions/*.yaml")
	if err != nil || len(want) == 0 {
		t.Fatal(want, err)
	}
	for i, file := range want {
		want[i] = strings.TrimSuffix(filepath.Base(file), ".yaml")
	}
	slices.Sort(want)
	if got := Names(); !slices.Equal(got, want) {
		t.Fatalf("names are %q, want %q", got, want)
	}
	for _, d := range Builtin() {
		if d.Description == "" {
			t.Errorf("%s has no description", d.Name)
		}
		loaded, err := Load(d.Name)
		if err != nil || loaded.Name != d.Name {
			t.Errorf("Load(%q) is %q, %v", d.Name, loaded.Name, err)
		}
	}
	Builtin()[0].Name = "changed"
	if Names()[0] == "changed" {
		t.Error("a caller can change the embedded definitions")
	}
}

func TestLoad(t *testing.T) {
	file := must.File(t, t.TempDir(), "mine.yaml", "name: mine\ndescription: mine\n")
	if d, err := Load(file); err != nil || d.Name != "mine" {
		t.Errorf("Load(%q) is %q, %v", file, d.Name, err)
	}
	for name, want := range map[string]string{
		"envoi":           `unknown mesh "envoi": known are ` + strings.Join(Names(), ", ") + `, or the path of a .yaml file`,
		"":                `unknown mesh ""`,
		"missing.yaml":    "no such file",
		"./envoy":         "no such file",
		t.TempDir() + "/": "a directory",
	} {
		must.Fail(t, must.Err(Load(name)), want, name)
	}
}

func TestCollect(t *testing.T) {
	dir := t.TempDir()
	file := func(name, text string) string {
		path := must.File(t, dir, name, text)
		return path
	}
	mine, broken := file("mine", "name: mine\n"), file("broken.yaml", "name: 1\n")
	all, err := Collect(mine)
	if err != nil || len(all) != len(Builtin())+1 || !slices.ContainsFunc(all, func(d Definition) bool { return d.Name == "mine" }) {
		t.Errorf("collected %d, %v", len(all), err)
	}
	_, err = Collect(mine, broken, mine, file("none.yaml", "name: none\n"), filepath.Join(dir, "missing"))
	for _, want := range []string{"broken.yaml:1:7: name: found 1, expected text", `mine: name: there is a mesh "mine" already`,
		`none.yaml: name: there is a mesh "none" already`, "missing: no such file"} {
		must.Fail(t, err, want)
	}
	var problems strict.Problems
	if !errors.As(err, &problems) {
		t.Error("the hints of a broken file are lost")
	}
	if _, err := Collect("istio"); !strings.Contains(hint.Of(err), "--set 'factors.mesh=[none, istio]'") {
		t.Errorf("the name of a mesh as a file: %v, hint %q", err, hint.Of(err))
	}
}

// valid is a definition the broken ones are made from. The config begins on line 9.
const valid = `name: mine
description: mine
provides: {mtls: true}
local:
  sidecar:
    program: envoy
    args: [-c, "{{.ConfigPath}}"]
    config: |
      admin: {{json .AdminPath}}
      {{if .Inbound}}app: {{.Inbound.AppPort}}{{end}}
  verify:
    unit: request
    inbound: in
    outbound: out-{{.Out.Service}}
    inboundHandshakes: in.tls
    outboundHandshakes: out.tls
tasks:
- {plane: data, role: sidecar, container: sidecar}
`

func TestDecodeRefuses(t *testing.T) {
	must.Get(Decode("m.yaml", []byte(valid)))(t)
	for name, c := range map[string]struct{ old, new, want string }{
		"no name":              {"name: mine\n", "", `m.yaml:1:1: name: missing`},
		"bad name":             {"name: mine", "name: My Mesh", `m.yaml:1:7: name: found "My Mesh", expected lower-case letters, digits and -`},
		"unknown field":        {"program: envoy", "programme: envoy", `m.yaml:6:5: local.sidecar.programme: unknown field`},
		"wrong type":           {"program: envoy", "program: [envoy]", `m.yaml:6:14: local.sidecar.program: found a list, expected text`},
		"no program":           {"    program: envoy\n", "", `m.yaml:5:3: local.sidecar.program: missing`},
		"negative concurrency": {"program: envoy", "program: envoy\n    concurrency: -1", `m.yaml:7:18: local.sidecar.concurrency: found -1, expected 0 to 1024`},
		"argument":             {`"{{.ConfigPath}}"`, `"{{.ConfigPth}}"`, `m.yaml:7:16: local.sidecar.args[1]: invalid template: <.ConfigPth>: can't evaluate field ConfigPth in type mesh.SidecarContext`},
		"template parse":       {"{{json .AdminPath}}", "{{jsn .AdminPath}}", `m.yaml:9:7: local.sidecar.config: invalid template: function "jsn" not defined`},
		"template unclosed":    {"{{end}}", "", `m.yaml:11:7: local.sidecar.config: invalid template: unexpected EOF`},
		"template field":       {"{{json .AdminPath}}", "{{json .Adminn}}", `m.yaml:9:21: local.sidecar.config: invalid template: <.Adminn>: can't evaluate field Adminn in type mesh.SidecarContext`},
		"unguarded inbound":    {"{{if .Inbound}}app: {{.Inbound.AppPort}}{{end}}", "app: {{.Inbound.AppPort}}", `m.yaml:10:22: local.sidecar.config: invalid template: <.Inbound.AppPort>: nil pointer evaluating *mesh.Inbound.AppPort`},
		"verify missing":       {valid[strings.Index(valid, "  verify:"):strings.Index(valid, "tasks:")], "", `m.yaml:4:1: local.verify: missing: nothing would prove that the data plane is in the path`},
		"unit":                 {"unit: request", "unit: byte", `m.yaml:12:11: local.verify.unit: found "byte", expected request, connection`},
		"unit missing":         {"    unit: request\n", "", `m.yaml:11:3: local.verify.unit: found "", expected request, connection`},
		"counter missing":      {"    inbound: in\n", "", `m.yaml:11:3: local.verify.inbound: missing`},
		"handshakes missing":   {"    inboundHandshakes: in.tls\n", "", `m.yaml:11:3: local.verify.inboundHandshakes: missing`},
		"handshakes too many": {"provides: {mtls: true}", "provides: {l7: true}",
			"m.yaml:15:24: local.verify.inboundHandshakes: the mesh does not provide mtls\nm.yaml:16:25: local.verify.outboundHandshakes: the mesh does not provide mtls"},
		"counter template": {"{{.Out.Service}}", "{{.Out.Name}}", `m.yaml:14:15: local.verify.outbound: invalid template: <.Out.Name>: can't evaluate field Name in type mesh.Outbound`},
		"plane":            {"plane: data", "plane: date", `m.yaml:18:11: tasks[0].plane: unknown plane "date"`},
		"no plane":         {"plane: data, ", "", `m.yaml:18:3: tasks[0].plane: no plane is given`},
		"unattributed":     {"plane: data", "plane: unattributed", `m.yaml:18:11: tasks[0].plane: unknown plane "unattributed"`},
		"no matcher":       {", container: sidecar", "", `m.yaml:18:3: tasks[0]: matches every task`},
		"star":             {"container: sidecar", `container: "*-proxy"`, `m.yaml:18:43: tasks[0].container: found "*-proxy", expected * only at the end`},
		"two at once": {"{{json .AdminPath}}\n      {{if .Inbound}}app: {{.Inbound.AppPort}}{{end}}\n  verify:\n    unit: request", "{{json .Adminn}}\n  verify:\n    unit: byte",
			"m.yaml:9:21: local.sidecar.config: invalid template: <.Adminn>: can't evaluate field Adminn in type mesh.SidecarContext\n" +
				`m.yaml:11:11: local.verify.unit: found "byte", expected request, connection`},
	} {
		t.Run(name, func(t *testing.T) {
			broken := strings.Replace(valid, c.old, c.new, 1)
			if broken == valid {
				t.Fatalf("%q is not in the definition", c.old)
			}
			_, err := Decode("m.yaml", []byte(broken))
			if err == nil || err.Error() != c.want {
				t.Errorf("got  %v\nwant %s", err, c.want)
			}
			var problems strict.Problems
			if !errors.As(err, &problems) {
				t.Errorf("the error is a %T, want strict.Problems", err)
			}
		})
	}
}

func FuzzDecode(f *testing.F) {
	f.Add([]byte(valid))
	for _, d := range Names() {
		data := must.Get(embedded.ReadFile("definitions/" + d + ".yaml"))(f)
		f.Add(data)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		d, err := Decode("f.yaml", data)
		if err != nil && err.Error() == "" {
			t.Error("an error without a message")
		}
		if err == nil && d.Name == "" {
			t.Error("a definition without a name")
		}
	})
}

func TestAttribute(t *testing.T) {
	envoy := must.Get(Load("envoy"))(t)
	rules := Definition{Tasks: []Rule{
		{Plane: metric.Data, Role: "node-proxy", PodLabel: map[string]string{"app": "node-*"}},
		{Plane: metric.Data, Role: "sidecar", Container: "proxy", Namespace: "shop"},
		{Plane: metric.Control, Namespace: "mesh-system"},
		{Plane: metric.Platform, Pod: "dns-*", Namespace: "*"},
	}}
	for name, c := range map[string]struct {
		mesh Definition
		task Task
		want string // plane/role/component
	}{
		"load's sidecar":        {envoy, Task{Pod: "load", Service: "load", Container: "sidecar"}, "data/sidecar/load"},
		"sidecar":               {envoy, Task{Pod: "echo-0", Service: "echo", Container: "sidecar"}, "data/sidecar/"},
		"sidecar of a loader":   {envoy, Task{Pod: "loader-0", Service: "loader", Container: "sidecar"}, "data/sidecar/"},
		"application":           {envoy, Task{Pod: "echo-0", Service: "echo", Container: "app"}, "app//"},
		"load generator":        {envoy, Task{Pod: "load", Service: "load", Container: "load"}, "load//"},
		"tare":                  {envoy, Task{Container: "tare"}, "harness//"},
		"no rule":               {envoy, Task{Container: "other"}, "unattributed//"},
		"local rules elsewhere": {envoy, Task{Namespace: "shop", Container: "app"}, "unattributed//"},
		"a cluster's own":       {envoy, Task{Namespace: "kube-system", Container: "app"}, "platform//"},
		"a cluster's DNS":       {envoy, Task{Namespace: "kube-system", Container: "coredns", Labels: map[string]string{"k8s-app": "kube-dns"}}, "platform/dns/"},
		"tare's own pod":        {envoy, Task{Namespace: "tare-x", Container: "app", Labels: map[string]string{"app.kubernetes.io/managed-by": "tare"}}, "app//"},
		"stale attribution":     {envoy, Task{Container: "other", Plane: metric.App, Role: "x", Component: "y"}, "unattributed//"},
		"first match wins":      {rules, Task{Namespace: "mesh-system", Labels: map[string]string{"app": "node-proxy"}, Container: "proxy"}, "data/node-proxy/"},
		"prefix is a prefix":    {rules, Task{Namespace: "x", Labels: map[string]string{"app": "my-node-proxy"}}, "unattributed//"},
		"label is missing":      {rules, Task{Namespace: "mesh-system"}, "control//"},
		"every field must hold": {rules, Task{Namespace: "other", Container: "proxy"}, "unattributed//"},
		"equality":              {rules, Task{Namespace: "mesh-system-2"}, "unattributed//"},
		"star alone":            {rules, Task{Namespace: "kube-system", Pod: "dns-7f"}, "platform//"},
	} {
		got := c.mesh.Attribute(c.task)
		if s := string(got.Plane) + "/" + got.Role + "/" + got.Component; s != c.want {
			t.Errorf("%s: %s, want %s", name, s, c.want)
		}
	}
}

func TestRender(t *testing.T) {
	d := must.Get(Decode("m.yaml", []byte(valid)))(t)
	s := d.Local.Sidecar
	s.Args = []string{"{{.Concurrency}}"}
	for _, c := range []struct {
		definition, asked int
		want              string
	}{{0, 0, "1"}, {2, 0, "2"}, {2, 3, "3"}} {
		s.Concurrency = c.definition
		args, config, err := s.Render(SidecarContext{AdminPath: `/tmp/a "b" <c>`, Concurrency: c.asked})
		if err != nil || args[0] != c.want {
			t.Errorf("concurrency is %q, %v, want %s", args, err, c.want)
		}
		if want := "admin: \"/tmp/a \\\"b\\\" <c>\"\n\n"; string(config) != want {
			t.Errorf("config is %q, want %q", config, want)
		}
	}
	if _, _, err := s.Render(SidecarContext{Pod: "echo-0", AdminPath: "/" + strings.Repeat("x", 107)}); !errors.Is(err, ErrSocketPath) {
		t.Errorf("a socket path of 108 bytes: %v", err)
	}
	s.Config = "{{.Nothing}}"
	if _, _, err := s.Render(SidecarContext{Pod: "echo-0"}); err == nil || !strings.Contains(err.Error(), "render sidecar of echo-0") {
		t.Errorf("an unknown field: %v", err)
	}
}

func TestCounters(t *testing.T) {
	d, err := Load("envoy")
	must.OK(t, err)
	got := must.Get(d.Local.Counters(SidecarContext{Inbound: &Inbound{}, Outbound: []Outbound{{Service: "a"}, {Service: "b"}}}))(t)
	if got.Inbound != "http.inbound.downstream_rq_total" || got.InboundHandshakes != "listener.inbound.ssl.handshake" || len(got.Outbound) != 2 ||
		got.InboundSent != "cluster.app.upstream_rq_total" ||
		!reflect.DeepEqual(got.Outbound[1], OutboundCounters{"b", "cluster.outbound-b.upstream_rq_total", "http.outbound-b.downstream_rq_total", "cluster.outbound-b.ssl.handshake",
			"cluster.outbound-b.upstream_rq_retry", "cluster.outbound-b.upstream_rq_timeout", nil}) {
		t.Errorf("counters are %+v", got)
	}
	got, err = d.Local.Counters(SidecarContext{})
	if err != nil || got.Inbound != "" || len(got.Outbound) != 0 {
		t.Errorf("counters of a sidecar with nothing around it: %+v, %v", got, err)
	}
}

// Without callers the configuration must refuse all clients.
func TestNobodyCalls(t *testing.T) {
	for _, name := range []string{"envoy", "envoy-tcp"} {
		d := must.Get(Load(name))(t)
		_, config, err := d.Local.Sidecar.Render(SidecarContext{Inbound: &Inbound{}})
		if err != nil || !strings.Contains(string(config), `{exact: "spiffe://nobody"}`) {
			t.Errorf("%s: %v\n%s", name, err, config)
		}
	}
}
