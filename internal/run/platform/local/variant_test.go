package local

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tare-mesh/tare/internal/answer/effective"
	"github.com/tare-mesh/tare/internal/experiment/mesh"
	"github.com/tare-mesh/tare/internal/run/platform"
	"github.com/tare-mesh/tare/test/must"
)

// A variant runs its own program, with its environment and arguments, beside the definition's.
func TestVariantRunsItsProgram(t *testing.T) {
	other := filepath.Join(t.TempDir(), "proxy-of-mine")
	must.OK(t, os.Symlink(agent, other))
	base := load(t, "reference")
	variant := must.Get(base.Variant("reference-mine", mesh.Overrides{Program: other, Environment: map[string]string{"TARE_TEST_VARIANT": "a b"}, Arguments: []string{"--burn", "1us"}}))(t)
	o := Options{AgentPath: agent, FetchProgram: fetchProgram, ProgramAt: func(_ context.Context, name, path string) (string, string, error) {
		return path, "1 (of " + name + ")", nil
	}}
	versions := must.Get(New(o).Prepare(t.Context(), []mesh.Definition{base, variant}))(t)
	if got := versions["reference-mine"]; got != "1 (of tare-agent)" {
		t.Errorf("version %q of %v", got, versions)
	}
	for _, m := range []mesh.Definition{base, variant} {
		_, spec, err := deploy(t, o, m)
		must.OK(t, err)
		commands := must.Get(os.ReadFile(filepath.Join(spec.Provenance, "commands.sh")))(t)
		ran := strings.Contains(string(commands), "TARE_TEST_VARIANT='a b' "+other+" proxy") && strings.Contains(string(commands), "--burn 1us")
		if ran != (m.Name == variant.Name) {
			t.Errorf("%s was started by\n%s", m.Name, commands)
		}
	}
}

// A program of a variant that is not a known one has the version that it prints, beside its digest.
func TestVariantPrintsItsVersion(t *testing.T) {
	script := filepath.Join(t.TempDir(), "nginx")
	must.OK(t, os.WriteFile(script, []byte("#!/bin/sh\necho nginx version: nginx/1.22.1\n"), 0o700))
	variant := must.Get(load(t, "nginx").Variant("nginx-mine", mesh.Overrides{Program: script}))(t)
	o := Options{AgentPath: agent, ProgramAt: func(_ context.Context, _, path string) (string, string, error) {
		return path, "(sha256 0123456789ab)", nil
	}}
	versions := must.Get(New(o).Prepare(t.Context(), []mesh.Definition{variant}))(t)
	if got := versions["nginx-mine"]; got != "1.22.1 (sha256 0123456789ab)" {
		t.Errorf("version %q of %v", got, versions)
	}
}

// The configuration that two Envoys really have differs in the setting of the variant, and in nothing else.
func TestEffectiveConfigurationOfEnvoys(t *testing.T) {
	realEnvoy(t)
	base := load(t, "envoy")
	variant := must.Get(base.Variant("envoy-log", mesh.Overrides{Options: map[string]string{"accessLog": "true"}}))(t)
	var all [2][]effective.Configuration
	for i, m := range []mesh.Definition{base, variant, base} {
		d, spec, err := deploy(t, Options{}, m)
		must.OK(t, err)
		must.Get(d.verifier.Verify(t.Context(), platform.Probe{}))(t)
		c := must.Get(effective.Read(spec.Provenance))(t)
		all[i%2] = append(all[i%2], c)
	}
	differences, known := effective.Compare(all[0], all[1])
	if !known || len(differences) != 2 {
		t.Errorf("got %+v", differences)
	}
	for _, d := range differences {
		if !strings.HasSuffix(d.Path, ".access_log") || d.A != "" || d.B == "" {
			t.Errorf("got %+v", d)
		}
	}
	if same, _ := effective.Compare(all[0][:1], all[0][1:]); len(same) > 0 {
		t.Errorf("two deployments of envoy differ: %+v", same)
	}
}
