package app_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/tare-mesh/tare/internal/experiment/app"
)

// The largest topologies a file can hold are refused, or walked, in no time.
func TestLargeTopologies(t *testing.T) {
	var many, calls, dense strings.Builder
	for i := range 40_000 {
		fmt.Fprintf(&many, "- name: s%d\n", i)
		fmt.Fprintf(&calls, "{service: x%d},", i)
	}
	for i := range 900 {
		fmt.Fprintf(&dense, "- name: s%d\n  calls: [", i)
		for j := i + 1; j < min(i+40, 900); j++ {
			fmt.Fprintf(&dense, "{service: s%d},", j)
		}
		dense.WriteString("]\n")
	}
	for name, text := range map[string]string{
		"services": many.String(), "unknown callees": "- name: a\n  calls: [" + calls.String() + "]\n", "dense": dense.String(),
	} {
		if _, err := app.Decode("t.yaml", []byte("name: t\nservices:\n"+text)); err == nil {
			t.Errorf("%s: accepted", name)
		} else {
			t.Logf("%s: %.120s", name, err)
		}
	}
}
