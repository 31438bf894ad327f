package meshes

import (
	"slices"
	"testing"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/tare-mesh/tare/internal/experiment/mesh"
	"github.com/tare-mesh/tare/kube/internal/cluster"
	"github.com/tare-mesh/tare/test/must"
)

// Before Consul's controllers, its custom resources are removed, and of the Gateway API only its own class, on which its
// configuration depends.
func TestCustomResourcesOfMesh(t *testing.T) {
	d := must.Get(mesh.Load("consul"))(t)
	m := must.Get(New(nil, d, mesh.Settings{}, Options{}))(t)
	crd := func(name string) cluster.Object {
		return cluster.Object{Ref: cluster.Ref{Kind: kindCRD, Name: name}}
	}
	object := func(group, kind, namespace, name string) cluster.Object {
		return cluster.Object{Ref: cluster.Ref{Kind: schema.GroupVersionKind{Group: group, Version: "v1", Kind: kind}, Namespace: namespace, Name: name}}
	}
	const consul, gateway = "consul.hashicorp.com", "gateway.networking.k8s.io"
	owned := object(consul, "ServiceDefaults", "shop", "with-owner")
	owned.Owned = true
	refs := customResources([]cluster.Object{
		crd("gatewayclassconfigs." + consul), crd("proxydefaults." + consul), crd("gatewayclasses." + gateway), crd("gateways." + gateway),
		object(consul, "GatewayClassConfig", "", "consul-api-gateway"), object(consul, "ProxyDefaults", "shop", "global"), owned,
		object(gateway, "GatewayClass", "", "consul"), object(gateway, "GatewayClass", "", "other"), object(gateway, "Gateway", "shop", "consul"),
		object("rbac.authorization.k8s.io", "ClusterRole", "", "consul-server"), object("", "Service", "shop", "consul"),
	}, (&uninstaller{instance: m.instance}).isLeftover)
	var got []string
	for _, r := range refs {
		got = append(got, r.Kind.Kind+" "+r.Name)
	}
	if want := []string{"GatewayClassConfig consul-api-gateway", "ProxyDefaults global", "GatewayClass consul"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}
