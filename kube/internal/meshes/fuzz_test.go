package meshes

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/tare-mesh/tare/internal/experiment/mesh"
	"github.com/tare-mesh/tare/test/must"
)

// FuzzMetrics: the metrics of a proxy are counted or refused.
func FuzzMetrics(f *testing.F) {
	for _, name := range []string{"linkerd-proxy.txt", "consul-dataplane.txt", "ztunnel.txt", "waypoint.txt"} {
		text := must.Get(os.ReadFile(filepath.Join("testdata", name)))(f)
		f.Add(text)
	}
	var counters []mesh.Counter
	for _, name := range []string{"istio", "istio-ambient", "linkerd", "consul"} {
		d := must.Get(mesh.Load(name))(f)
		for _, x := range d.Kubernetes.Proxies {
			counters = append(counters, x.Counters...)
			for _, c := range x.Connections {
				counters = append(counters, c.Of("shop", "front"))
			}
		}
	}
	f.Fuzz(func(_ *testing.T, b []byte) {
		families, err := parseMetrics(b)
		if err != nil {
			return
		}
		for _, c := range counters {
			sum(families, c)
		}
	})
}
