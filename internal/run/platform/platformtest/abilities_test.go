package platformtest

import (
	"context"
	"reflect"
	"slices"
	"testing"

	"github.com/tare-mesh/tare/internal/base/check"
	"github.com/tare-mesh/tare/internal/run/platform"
)

// A field added to Deployment needs a test here, and a test needs its field.
func TestEachAbilityHasATest(t *testing.T) {
	var fields, tests []string
	for f := range reflect.TypeFor[platform.Deployment]().Fields() {
		if !f.Anonymous {
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

func (verifier) Verify(context.Context) ([]check.Check, error) { return nil, nil }

func TestUndeclaredAbilityIsAProblem(t *testing.T) {
	got := declared(platform.Deployment{Verifier: verifier{}})
	for _, c := range []struct {
		want     []string
		problems int
	}{{[]string{"Verifier"}, 0}, {[]string{"Verifier", "Watcher"}, 1}, {nil, 1}} {
		if p := compare(got, c.want); len(p) != c.problems {
			t.Errorf("declared %v, expected %v: %v", got, c.want, p)
		}
	}
}
