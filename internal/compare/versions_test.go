package compare

import (
	"maps"
	"testing"

	"github.com/tare-mesh/tare/internal/base/must"
)

// A run before the version v1beta1 is compared with one after it.
func TestVersionsOfTheFileAgree(t *testing.T) {
	const fields = "kind: Experiment\nload: {timeout: 10s}\n"
	old := must.Get(Conditions{Name: "old", Experiment: []byte("apiVersion: tare.dev/v1alpha1\norder: turns\n" + fields)}.flat())(t)
	now, err := Conditions{Name: "new", Experiment: []byte("apiVersion: tare.dev/v1beta1\norder: by-mesh\n" + fields)}.flat()
	if err != nil || !maps.Equal(old, now) || len(now) != 3 {
		t.Errorf("%v: %v and %v", err, old, now)
	}
}
