package meshes

import (
	"strings"
	"testing"

	"github.com/tare-mesh/tare/internal/experiment/mesh"
	"github.com/tare-mesh/tare/test/must"
)

// A request that the gateway has not counted bypassed it.
func TestAllThroughGateway(t *testing.T) {
	x := mesh.Proxy{Role: "gateway", Counters: []mesh.Counter{{Proves: mesh.ProvesL7}, {Proves: mesh.ProvesL7}, {Proves: mesh.ProvesMTLS}}}
	for _, c := range []struct {
		before, after []float64
		answered      int
		ok            bool
	}{
		{[]float64{0, 5, 0}, []float64{0, 25, 1}, 20, true},
		{[]float64{0, 5, 0}, []float64{0, 26, 1}, 20, true}, // and one of another client
		{[]float64{0, 5, 0}, []float64{0, 24, 100}, 20, false},
		{[]float64{3, 5, 0}, []float64{3, 5, 0}, 0, false},
	} {
		check := allThroughGateway(x, c.before, c.after, c.answered)
		if check.OK != c.ok || (check.Hint == "") != c.ok || !strings.HasPrefix(check.Name, "every request comes through the gateway") {
			t.Errorf("%v to %v, %d answered: %+v", c.before, c.after, c.answered, check)
		}
	}
}

// The gateway's CRDs are installed only with the gateway.
func TestGatewayCRDs(t *testing.T) {
	for name, want := range map[string][2]int{"istio": {0, 1}, "istio-ambient": {1, 1}, "linkerd": {1, 1}, "none": {0, 0}} {
		d := must.Get(mesh.Load(name))(t)
		for i, gateway := range []bool{false, true} {
			m := must.Get(New(nil, d, mesh.Settings{}, Options{Gateway: gateway}))(t)
			if got := len(newInstaller(m.instance).crds()); got != want[i] {
				t.Errorf("%s, gateway %v: %d sets of CRDs, want %d", name, gateway, got, want[i])
			}
		}
	}
}
