package runner_test

import (
	"strings"
	"testing"

	"github.com/tare-mesh/tare/internal/experiment/mesh"
	"github.com/tare-mesh/tare/internal/result/balance"
	"github.com/tare-mesh/tare/test/difftest"
	"github.com/tare-mesh/tare/test/must"
)

// Messages pass a real pair of Envoys in each direction of streams. The application has each message, and
// the sidecars have each connection.
func TestWebSocketTrials(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		mesh, options, load string
		in                  int64 // bytes of payload that a message receives, at least
	}{
		{"none", "", "{}", 300}, {"none", "", "{answer: message, messages: 3}", 3 << 10}, {"none", "", "{answer: pong}", 0},
		{"envoy", "", "{}", 300}, {"envoy", "", "{answer: message, messages: 3}", 3 << 10}, {"envoy", "", "{answer: pong}", 0},
		{"envoy", "meshes: {envoy: {options: {http2: true}}}\n", "{}", 300},
	} {
		t.Run(test.mesh+test.load+test.options, func(t *testing.T) {
			t.Parallel()
			if testing.Short() && test.mesh != "none" {
				t.Skip("starts a real Envoy")
			}
			cfg, _ := real(t, strings.NewReplacer("mesh: [none]", "mesh: ["+test.mesh+"]\n  protocol: [websocket]\n  requestSize: [300B]", "blocks: 1",
				"blocks: 1\n"+test.options+"load: {webSocket: "+test.load+"}").Replace(conservedText))
			d := must.Get(cfg.Experiment.Definition(test.mesh, map[string]mesh.Definition{test.mesh: cfg.Meshes[test.mesh]}))(t)
			cfg.Meshes[test.mesh] = d
			r := one(t, cfg)
			accepted(t, r)
			l := r.Load
			late := l.Classes["timeout"] // on a machine that stops for seconds
			if d := difftest.Wrong("l.Completed == 0", l.Completed == 0, `l.Classes["2xx"]+late != l.Intended`, l.Classes["2xx"]+late != l.Intended, "late > l.Intended/2", late > l.Intended/2, "late == 0 && l.Errors != nil", late == 0 && l.Errors != nil, "l.BytesOut < 300*l.Completed", l.BytesOut < 300*l.Completed, "l.BytesIn < test.in*l.Completed", l.BytesIn < test.in*l.Completed); d != "" {
				t.Errorf("%s: %+v", d, l)
			}
			counted := map[balance.Unit]int64{}
			for _, e := range r.Balance.Equations {
				counted[e.Unit] = max(counted[e.Unit], e.Counted)
			}
			if counted[balance.Requests] < l.Completed || counted[balance.Connections] < 4 || (counted[balance.Handshakes] > 0) != (test.mesh != "none" && test.options == "") { // over HTTP/2 they share one
				t.Errorf("equations count %v, unchecked %q", counted, r.Balance.Unchecked)
			}
		})
	}
}
