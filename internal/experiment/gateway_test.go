package experiment_test

import (
	"strings"
	"testing"

	"github.com/tare-mesh/tare/internal/experiment"
	"github.com/tare-mesh/tare/test/must"
)

func TestLoadThroughTheGateway(t *testing.T) {
	onCluster := withMeshes()
	onCluster.Protocols = []string{"http1", "http2", "grpc", "tcp"}
	const head = "apiVersion: tare.dev/v1beta1\nkind: Experiment\nmetadata: {name: x}\n"
	const cluster = "platform: {kind: kubernetes}\n"
	const through = "load: {entry: gateway}\n"
	for text, want := range map[string]string{
		cluster + through + "factors: {mesh: [none, istio]}":                                                                  "",
		cluster + "load: {entry: service}\nfactors: {mesh: [linkerd]}":                                                        "",
		cluster + "load: {from: outside, entry: gateway}\nfactors: {mesh: [istio]}":                                           "",
		"platform: {kind: kubernetes, expose: loadBalancer}\nload: {from: outside, entry: gateway}\nfactors: {mesh: [istio]}": "",
		cluster + through + "factors: {mesh: [none, istio], protocol: [http1, grpc]}":                                         "",
		through + "factors: {mesh: [none, envoy]}":                                                                            "x.yaml:4:15: load.entry: it applies to clusters, and the platform is local",
		cluster + "load: {entry: gatway}\nfactors: {mesh: [istio]}":                                                           `x.yaml:5:15: load.entry: unknown entry of the load "gatway"`,
		cluster + through + "factors: {mesh: [none, linkerd]}":                                                                "x.yaml:6:24: factors.mesh[1]: mesh linkerd: unsupported operation through a gateway: Linkerd has no ingress gateway of its own",
		cluster + through + "factors: {mesh: [consul]}":                                                                       "factors.mesh[0]: mesh consul: unsupported operation through a gateway",
		cluster + through + "factors: {mesh: [none, contour]}":                                                                "",
		cluster + "factors: {mesh: [none, contour]}":                                                                          "x.yaml:5:24: factors.mesh[1]: mesh contour is a gateway, and the load does not enter there",
		cluster + through + "factors: {mesh: [none]}":                                                                         "load.entry: factors.mesh has no mesh, so there is no gateway",
		cluster + through + "factors: {rate: [10]}":                                                                           "load.entry: factors.mesh has no mesh, so there is no gateway",
		cluster + through + "factors: {mesh: [istio], protocol: [http1, tcp]}":                                                "x.yaml:6:44: factors.protocol[1]: mesh istio: unsupported operation: the gateway's routes support http1, http2, grpc, not tcp",
		cluster + through + "application: {services: [{name: a, protocol: tcp}]}\nfactors: {mesh: [istio]}":                   "application: mesh istio: unsupported operation: the gateway's routes support",
	} {
		e, err := experiment.Parse("x.yaml", []byte(head+text+"\n"), onCluster)
		must.Match(t, err, want, text)
		if err == nil && (e.Gateway() != strings.Contains(text, "gateway") || (e.Way() == "") == e.Gateway()) {
			t.Errorf("%s: gateway %v, way %q", text, e.Gateway(), e.Way())
		}
	}
}

// The path of the load is described with the type of its Services.
func TestWayThroughTheGateway(t *testing.T) {
	for _, c := range []struct{ from, expose, want string }{{"", "", "ClusterIP"}, {"outside", "", "NodePort"}, {"outside", "nodePort", "NodePort"}, {"outside", "loadBalancer", "LoadBalancer"}} {
		e := experiment.Experiment{Load: experiment.Load{From: c.from, Entry: experiment.EntryGateway}, Platform: experiment.Platform{Expose: c.expose}}
		if !strings.HasSuffix(e.Way(), " of type "+c.want) {
			t.Errorf("%+v: %s", c, e.Way())
		}
	}
}
