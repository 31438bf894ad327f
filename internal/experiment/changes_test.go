package experiment_test

import (
	"fmt"
	"testing"

	"github.com/tare-mesh/tare/internal/experiment"
	"github.com/tare-mesh/tare/internal/experiment/app"
	"github.com/tare-mesh/tare/test/must"
)

// Answers of every protocol but TCP show which configuration served them.
func TestProtocolsOfChanges(t *testing.T) {
	for protocol, refused := range map[string]bool{app.HTTP1: false, app.HTTP2: false, app.GRPC: false, app.WebSocket: false, app.TCP: true} {
		text := fmt.Sprintf("apiVersion: tare.dev/v1beta1\nkind: Experiment\nmetadata: {name: t}\nfactors: {protocol: [%s]}\nphases: {measure: 20s}\nchanges: {every: 500ms}\n", protocol)
		names := known
		names.Protocols = []string{protocol}
		_, err := experiment.Parse("changes.yaml", []byte(text), names)
		if !refused {
			must.OK(t, err)
			continue
		}
		must.Fail(t, err, "shows which version served each answer")
	}
}

// Where a gate asks for milliseconds, and a load shows none, requests beside it do.
func TestProbeChoosesItself(t *testing.T) {
	for _, c := range []struct {
		expect, load, probe string
		want                float64
	}{
		{"change.last_old.p50 < 30ms", "rate: [500], connections: [32]", "", 1000},
		{"change.first_new.p50(route-changed) < 99ms", "rate: [200, 2000], connections: [8]", "", 1000},
		{"change.last_old.p50 < 30ms", "rate: [1000], connections: [65]", "", 1000},
		{"change.last_old.p50 < 30ms", "rate: [1000], connections: [64]", "", 0},
		{"change.last_old.p50 < 2s", "rate: [500], connections: [32]", "", 0},
		{"change.failed < 1", "rate: [500], connections: [32]", "", 0},
		{"change.last_old.p50 < 30ms", "rate: [500], connections: [32]", ", probe: {rate: 0}", 0},
		{"change.last_old.p50 < 30ms", "rate: [500], connections: [32]", ", probe: {rate: 300}", 300},
	} {
		text := fmt.Sprintf("apiVersion: tare.dev/v1beta1\nkind: Experiment\nmetadata: {name: t}\nfactors: {%s}\nphases: {measure: 20s}\nchanges: {every: 500ms%s}\nexpect: [%q]\n", c.load, c.probe, c.expect)
		e := must.Get(experiment.Parse("changes.yaml", []byte(text), known))(t)
		if got := e.Changes.Probe.Rate; got != c.want {
			t.Errorf("%q at %s%s: a probe of %v requests/s, want %v", c.expect, c.load, c.probe, got, c.want)
		}
	}
}
