package kube

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/tare-mesh/tare/internal/experiment/plan"
	"github.com/tare-mesh/tare/internal/run/platform"
)

// The ID of a run with any name is a label value and part of a namespace's name.
func TestRunID(t *testing.T) {
	seen := map[string]bool{}
	for _, name := range []string{"quickstart", "", "-", "ÄÖÜ und mehr", strings.Repeat("x", 100), "a.b_c", "a-----------------------b-"} {
		id := RunID(name, name)
		spec := platform.Spec{Trial: plan.Trial{Ordinal: 10_000}}
		for _, s := range []string{id, namespaceOf(id, spec)} {
			if wrong := validation.IsDNS1123Label(s); len(wrong) > 0 {
				t.Errorf("%q: %v", s, wrong)
			}
			seen[s] = true
		}
	}
	if len(seen) != 14 {
		t.Errorf("%d names, want 14: %v", len(seen), seen)
	}
	one := RunID("a", "/one")
	if again, other := RunID("a", "/one"), RunID("a", "/two"); again != one || other == one {
		t.Errorf("one run is %s and %s, another %s", one, again, other)
	}
}
