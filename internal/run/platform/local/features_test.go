package local

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/tare-mesh/tare/internal/experiment/mesh"
	"github.com/tare-mesh/tare/test/must"
)

// everyOption is Envoy with every option on that can be verified.
func everyOption(t *testing.T) (mesh.Definition, []string) {
	t.Helper()
	base := load(t, "envoy")
	options := map[string]string{}
	for _, f := range base.Local.Verify.Features {
		options[f.Option] = "true"
		if base.Local.Sidecar.Options[f.Option].UpTo > 0 {
			options[f.Option] = "3"
		}
	}
	m := must.Get(base.Variant("envoy-all", mesh.Overrides{Options: options, Concurrency: 2}))(t)
	return m, slices.Sorted(maps.Keys(options))
}

// Each option of Envoy acts on the probes. An option whose configuration is missing is found, by its name.
func TestOptionsOfEnvoyAct(t *testing.T) {
	realEnvoy(t)
	m, options := everyOption(t)
	if len(options) < 9 {
		t.Fatalf("only the options %v are verified", options)
	}
	if !m.Provides.Retries || !m.Provides.Telemetry {
		t.Errorf("it provides %+v", m.Provides)
	}
	for _, c := range verdict(t, mustDeploy(t, Options{}, m)) {
		if !c.OK {
			t.Errorf("%s: %s", c.Name, c.Detail)
		}
	}
	broken := m
	local := *m.Local
	for _, option := range options {
		for _, dollar := range []string{"", "$"} {
			local.Sidecar.Config = strings.ReplaceAll(local.Sidecar.Config, "eq "+dollar+".Options."+option+` "true"`, "eq "+dollar+".Options."+option+` "never"`)
			local.Sidecar.Config = strings.ReplaceAll(local.Sidecar.Config, "count "+dollar+".Options."+option, `count "0"`)
		}
		local.Sidecar.Config = strings.ReplaceAll(local.Sidecar.Config, "ne .Options."+option+` "0"`, `eq "0" "never"`)
	}
	local.Sidecar.Args = slices.Clone(local.Sidecar.Args)
	local.Sidecar.Args[slices.Index(local.Sidecar.Args, "--concurrency")+1] = "1"
	broken.Local = &local
	found := map[string]bool{}
	for _, c := range verdict(t, mustDeploy(t, Options{}, broken)) {
		if !c.OK {
			word, rest, _ := strings.Cut(c.Name, " ")
			if name, _, _ := strings.Cut(rest, " "); word == "option" {
				word = name
			}
			found[word] = true
		}
	}
	if want := append(options, "workers"); !slices.Equal(slices.Sorted(maps.Keys(found)), want) {
		t.Errorf("found missing %v, want %v", slices.Sorted(maps.Keys(found)), want)
	}
}

// With the fewest statistics, verification has what it reads. Without TLS, a mesh does not provide it.
func TestFewestStatistics(t *testing.T) {
	realEnvoy(t)
	envoy := must.Get(load(t, "envoy").Variant("few", mesh.Overrides{Options: map[string]string{"stats": "false"}}))(t)
	tcp := must.Get(load(t, "envoy-tcp").Variant("plain", mesh.Overrides{Options: map[string]string{"stats": "false", "mtls": "false"}}))(t)
	if tcp.Provides.MTLS || tcp.Provides.Telemetry || !load(t, "envoy-tcp").Provides.MTLS {
		t.Errorf("%+v", tcp.Provides)
	}
	for _, m := range []mesh.Definition{envoy, tcp} {
		d := mustDeploy(t, Options{}, m)
		for _, c := range verdict(t, d) {
			if !c.OK {
				t.Errorf("%s, %s: %s", m.Name, c.Name, c.Detail)
			}
		}
		counters, err := (&admin{socket: d.layout.load.sidecar.AdminPath}).counters(t.Context(), nil)
		if err != nil || len(counters) > 40 {
			t.Errorf("%s: %d counters, %v", m.Name, len(counters), err)
		}
	}
}

// A sidecar that has thousands of clusters, endpoints and routes is verified, and its dump is not kept.
func TestManyClusters(t *testing.T) {
	realEnvoy(t)
	t.Parallel()
	m := must.Get(load(t, "envoy").Variant("many", mesh.Overrides{Options: map[string]string{"clusters": "3000", "endpoints": "3000", "routes": "3000"}}))(t)
	for _, c := range verdict(t, mustDeploy(t, Options{}, m)) {
		if !c.OK {
			t.Errorf("%s: %s", c.Name, c.Detail)
		}
	}
}
