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
	"github.com/tare-mesh/tare/test/must"
)

// debian are meshes whose programs tare does not fetch: TestShippedProxies runs them.
var debian = []string{"nginx", "haproxy", "caddy"}

// kinds are meshes that forward alike: of each kind one is combined with every application, and all are combined with echo.
var kinds = []string{"none", "reference", "envoy", "envoy-tcp"}

// combination is an application, a protocol and a mesh.
type combination [3]string

// pairs are the values of each two of the three.
func (c combination) pairs() [3]combination {
	return [3]combination{{c[0], c[1], ""}, {c[0], "", c[2]}, {"", c[1], c[2]}}
}

// pairwise selects combinations that have each pair of values of all.
func pairwise(all []combination) (chosen []combination) {
	missing := map[combination]bool{}
	for _, c := range all {
		for _, pair := range c.pairs() {
			missing[pair] = true
		}
	}
	for len(missing) > 0 {
		most, best := 0, combination{}
		for _, c := range all {
			n := 0
			for _, pair := range c.pairs() {
				if missing[pair] {
					n++
				}
			}
			if n > most {
				most, best = n, c
			}
		}
		for _, pair := range best.pairs() {
			delete(missing, pair)
		}
		chosen = append(chosen, best)
	}
	return chosen
}

// Applications, protocols and meshes that may be combined on this machine measure valid trials: each pair of values once, and
// with TARE_TEST_ALL every combination.
func TestCombinationsRun(t *testing.T) {
	if testing.Short() {
		t.Skip("runs experiments")
	}
	t.Parallel()
	var all []combination
	for _, a := range app.Builtin() {
		for _, protocol := range app.Protocols() {
			for _, m := range mesh.Builtin() {
				if slices.Contains(debian, m.Name) || m.Name == "consul" && os.Getenv("TARE_TEST_ALL") == "" { // CI does not build it
					continue
				}
				c := experiment.Combination{Application: a, Protocol: protocol, Mesh: m, Platform: mesh.OnLocal}
				if _, err := c.Refused(); err == nil && (a.Name == "echo" || slices.Contains(kinds, m.Name)) {
					all = append(all, combination{a.Name, protocol, m.Name})
				}
			}
		}
	}
	if len(all) < 100 {
		t.Errorf("only %d combinations", len(all))
	}
	if os.Getenv("TARE_TEST_ALL") == "" {
		all = pairwise(all)
	}
	t.Logf("%d combinations", len(all))
	meshes := map[combination][]string{} // by application and protocol: the trials of one experiment
	for _, c := range all {
		key := combination{c[0], c[1], ""}
		meshes[key] = append(meshes[key], c[2])
	}
	for key, names := range meshes {
		t.Run(key[0]+"/"+key[1], func(t *testing.T) {
			t.Parallel()
			file := filepath.Join(t.TempDir(), "x.yaml")
			text := fmt.Sprintf("apiVersion: %s\nkind: Experiment\nmetadata: {name: combinations}\napplication: {topology: %s}\n"+
				"factors: {mesh: [%s], protocol: [%s], rate: [20], connections: [8]}\nphases: {warmup: 200ms, measure: 1s, drain: 500ms}\n"+
				"validity: {rateShortfall: 1, errorRatio: 0.5, lateness: 60s, generatorCPU: 1}\nblocks: 1\norder: random\n", // a busy machine is late
				experiment.APIVersion, key[0], strings.Join(names, ", "), key[1])
			must.OK(t, os.WriteFile(file, []byte(text), 0o600))
			if r, code := carriedOut(t, file); code != 0 || r.Count.Used != len(names) {
				t.Errorf("exit code %d, %d of %d trials are valid: %s", code, r.Count.Used, len(names), strings.Join(names, ", "))
			}
		})
	}
}
