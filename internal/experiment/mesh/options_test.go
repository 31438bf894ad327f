package mesh

import (
	"reflect"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"github.com/tare-mesh/tare/test/must"
)

// rendered is the configuration of a sidecar as data.
func rendered(t *testing.T, d Definition, pod int) any {
	t.Helper()
	control := map[string]ControlContext{"otlp": {IP: "127.0.0.9", Ports: map[string]int{"grpc": 4317}}}
	ctx, _ := sampleContexts(d.Local.Sidecar, control)[pod].(SidecarContext)
	_, config, err := d.Local.Sidecar.Render(ctx)
	must.OK(t, err)
	var v any
	if err := yaml.Unmarshal(config, &v); err != nil {
		t.Fatalf("%v\n%s", err, config)
	}
	return v
}

func variantOf(t *testing.T, name string, options map[string]string) Definition {
	t.Helper()
	d, err := Load(name)
	if err == nil {
		d, err = d.Variant(name+"-variant", Overrides{Options: options})
	}
	must.OK(t, err)
	return d
}

// The option retries is the definition envoy-retries.
func TestRetriesAreOneThing(t *testing.T) {
	definition := must.Get(Load("envoy-retries"))(t)
	option := variantOf(t, "envoy", map[string]string{"retries": "true"})
	if option.Provides != definition.Provides {
		t.Errorf("%+v, want %+v", option.Provides, definition.Provides)
	}
	for pod := range 2 {
		if got, want := rendered(t, option, pod), rendered(t, definition, pod); !reflect.DeepEqual(got, want) {
			t.Errorf("pod %d: got %v\nwant %v", pod, got, want)
		}
	}
}

// Every option changes the configuration, whether another is on or not, and the process of an option runs with it only.
func TestOptionsChangeTheConfiguration(t *testing.T) {
	for _, name := range []string{"envoy", "envoy-tcp"} {
		base := must.Get(Load(name))(t)
		for option, o := range base.Local.Sidecar.Options {
			value := map[string]string{"true": "false", "false": "true", "0": "3"}[o.Default]
			d := variantOf(t, name, map[string]string{option: value})
			if reflect.DeepEqual(rendered(t, d, 0), rendered(t, base, 0)) && reflect.DeepEqual(rendered(t, d, 1), rendered(t, base, 1)) {
				t.Errorf("%s: option %s=%s changes nothing", name, option, value)
			}
			if (o.UpTo > 0) != strings.Contains("clusters endpoints routes", option) {
				t.Errorf("%s: option %s is up to %d", name, option, o.UpTo)
			}
			if got := len(d.Local.Controls()); (got == 1) != (option == "tracing") {
				t.Errorf("%s: %d control processes with %s=%s", name, got, option, value)
			}
		}
	}
	many := variantOf(t, "envoy", map[string]string{"clusters": "10000"})
	clusters := rendered(t, many, 1).(map[string]any)["static_resources"].(map[string]any)["clusters"].([]any)
	if len(clusters) != 10001 {
		t.Errorf("%d clusters", len(clusters))
	}
}

func TestOptionsThatCannotBe(t *testing.T) {
	const head = "name: x\ndescription: x\nlocal:\n  sidecar:\n    program: p\n    args: []\n    config: c\n    options:\n      "
	const tail = "\n  verify: {unit: request, inbound: a, outbound: b%s}\n"
	for name, c := range map[string]struct{ option, more, want string }{
		"number":  {"n: {doc: d, upTo: 10, default: ten}", "", "local.sidecar.options.n.upTo: found 10 with default \"ten\""},
		"feature": {"n: {doc: d, oneOf: [\"true\"], default: \"true\", provides: speed}", "", "provides: found \"speed\""},
		"option":  {"n: {doc: d}", ", features: [{option: n, inbound: c}]", "there is no option \"n\" with the value true"},
		"nothing": {"n: {doc: d, upTo: 5, default: \"0\"}", ", features: [{option: n}]", "nothing would show"},
		"pattern": {"n: {doc: d}", ", statistics: '('", "missing closing )"},
	} {
		_, err := Decode("x.yaml", []byte(head+c.option+strings.Replace(tail, "%s", c.more, 1)))
		must.Fail(t, err, c.want, name)
	}
}

// Istio's policies and services are as many objects as the options have.
func TestIstioLadderOptions(t *testing.T) {
	d := must.Get(Load("istio"))(t)
	count := map[string]int{}
	e := must.Get(d.Kubernetes.Enrol(Settings{Options: map[string]string{"policies": "10", "services": "100"}}, "shop", Way{LoadInside: true}))(t)
	for _, stream := range e.Manifests {
		for decoder := yaml.NewDecoder(strings.NewReader(stream)); ; {
			var o struct {
				Kind string
				Spec map[string]any
			}
			if err := decoder.Decode(&o); err != nil {
				break
			}
			if count[o.Kind]++; o.Kind != "" && len(o.Spec) == 0 {
				t.Errorf("%s has no spec", o.Kind)
			}
		}
	}
	if count["AuthorizationPolicy"] != 10 || count["ServiceEntry"] != 100 || count["PeerAuthentication"] != 1 {
		t.Errorf("got %v", count)
	}
}
