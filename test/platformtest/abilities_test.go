package platformtest

import (
	"context"
	"reflect"
	"slices"
	"testing"

	"github.com/tare-mesh/tare/internal/experiment/mesh"
	"github.com/tare-mesh/tare/internal/run/platform"
	"github.com/tare-mesh/tare/test/must"
)

// A field added to Deployment needs a test here, and a test needs its field.
func TestEachAbilityHasATest(t *testing.T) {
	var fields, tests []string
	for f := range reflect.TypeFor[platform.Deployment]().Fields() {
		if !f.Anonymous && f.Type.Kind() != reflect.String {
			fields = append(fields, f.Name)
		}
	}
	for _, a := range abilityTests {
		tests = append(tests, a.name)
	}
	slices.Sort(fields)
	slices.Sort(tests)
	if !slices.Equal(fields, tests) {
		t.Errorf("fields %v, tests %v", fields, tests)
	}
}

type verifier struct{}

func (verifier) Verify(context.Context, platform.Probe) (platform.Verification, error) {
	return platform.Verification{}, nil
}

func TestUndeclaredAbilityIsAProblem(t *testing.T) {
	got := declared(platform.Deployment{Verify: verifier{}.Verify})
	for _, c := range []struct {
		want     []string
		problems int
	}{{[]string{"Verify"}, 0}, {[]string{"Verify", "Broken"}, 1}, {nil, 1}} {
		if p := compare(got, c.want); len(p) != c.problems {
			t.Errorf("declared %v, expected %v: %v", got, c.want, p)
		}
	}
}

// A reading without the counters of a mesh that has them is a problem, and so is one with the counters of proxies that do not run.
func TestCountersAreThoseOfTheMesh(t *testing.T) {
	all := map[string]int64{"retries": 0, "timeouts": 2}
	for _, c := range []struct {
		mesh     string
		counters map[string]int64
		problems int
	}{
		{"envoy", all, 0}, {"envoy", nil, 1}, {"envoy", map[string]int64{"retries": 0}, 1}, {"envoy", map[string]int64{"retries": 0, "timeouts": -1}, 1},
		{"none", nil, 0}, {"none", all, 1},
	} {
		m := must.Get(mesh.Load(c.mesh))(t)
		if p := counterProblems(m, c.counters); len(p) != c.problems {
			t.Errorf("%s with %v: %q", c.mesh, c.counters, p)
		}
	}
}
