package answer

import (
	"testing"

	"github.com/tare-mesh/tare/internal/compare"
	"github.com/tare-mesh/tare/internal/result"
)

// A variant without a program of its own has its origin's program. With the default version it has the same program too.
func TestProgramsOfVariants(t *testing.T) {
	d := &compare.Run{Environment: result.Environment{
		Versions: map[string]string{"envoy": "1.40.0", "same": "1.40.0", "old": "1.39.3"},
		Variants: map[string]string{
			"log": "envoy with options.accessLog=true", "same": "envoy with version=1.40.0", "old": "envoy with version=1.39.3",
			"old-log": "old with options.accessLog=true", "istio-bare": "istio with options.telemetry=false",
		},
	}}
	for name, want := range map[string]string{"envoy": "1.40.0", "log": "1.40.0", "same": "1.40.0", "old": "1.39.3", "old-log": "1.39.3", "istio": "", "istio-bare": ""} {
		if got := programOf(d, name); got != want {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
}
