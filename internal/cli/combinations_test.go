package cli

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/tare-mesh/tare/internal/experiment"
	"github.com/tare-mesh/tare/internal/experiment/app"
	"github.com/tare-mesh/tare/internal/experiment/mesh"
)

// kinds are meshes that forward alike: of each kind one runs with every application. All run with echo.
var kinds = []string{"none", "reference", "envoy", "envoy-tcp"}

// Every application, protocol and mesh that may be combined on this machine measures valid trials.
func TestCombinationsRun(t *testing.T) {
	if testing.Short() {
		t.Skip("runs experiments")
	}
	meshes, run := mesh.Builtin(), 0
	for _, a := range app.Builtin() {
		for _, protocol := range app.Protocols() {
			var allowed []string
			for _, m := range meshes {
				c := experiment.Combination{Application: a, Protocol: protocol, Mesh: m, Platform: mesh.OnLocal}
				if _, err := c.Refused(); err == nil && (a.Name == "echo" || slices.Contains(kinds, m.Name)) {
					allowed = append(allowed, m.Name)
				}
			}
			if len(allowed) == 0 {
				continue
			}
			t.Run(a.Name+"/"+protocol, func(t *testing.T) {
				file := filepath.Join(t.TempDir(), "x.yaml")
				text := fmt.Sprintf("apiVersion: %s\nkind: Experiment\nmetadata: {name: combinations}\napplication: {topology: %s}\n"+
					"factors: {mesh: [%s], protocol: [%s], rate: [20], connections: [8]}\nphases: {warmup: 200ms, measure: 1s, drain: 200ms}\n"+
					"validity: {rateShortfall: 1, lateness: 60s, generatorCPU: 1}\nblocks: 1\norder: random\n", // a busy machine is late
					experiment.APIVersion, a.Name, strings.Join(allowed, ", "), protocol)
				if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
					t.Fatal(err)
				}
				if r, code := carriedOut(t, file); code != 0 || r.Count.Used != len(allowed) {
					t.Errorf("exit code %d, %d of %d trials are valid", code, r.Count.Used, len(allowed))
				}
			})
			run += len(allowed)
		}
	}
	if run < 100 {
		t.Errorf("only %d combinations", run)
	}
}
