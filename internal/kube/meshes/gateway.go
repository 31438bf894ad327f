package meshes

import (
	"context"
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/tare-mesh/tare/internal/base/check"
	"github.com/tare-mesh/tare/internal/experiment/mesh"
	"github.com/tare-mesh/tare/internal/kube/cluster"
)

func (t Target) way() mesh.Way { return mesh.Way{LoadInside: t.LoadInside, Front: t.Front} }

// proxies are the parts of the data plane, with what runs in the ingress gateway or without.
func (m *Mesh) proxies(gateway bool) []mesh.Proxy {
	if g := m.k.Gateway; gateway && g != nil && g.Proxy != nil {
		return append(slices.Clone(m.k.Proxies), *g.Proxy)
	}
	return m.k.Proxies
}

func (m *Mesh) isGateway(x mesh.Proxy) bool {
	return m.k.Gateway != nil && m.k.Gateway.Proxy != nil && m.k.Gateway.Proxy.Role == x.Role
}

// ConditionRef is the object that a condition is reported of, in a namespace.
func ConditionRef(c mesh.Condition, namespace string) cluster.Ref {
	return cluster.Ref{Kind: schema.GroupVersionKind{Group: c.Group, Version: c.Version, Kind: c.Kind}, Namespace: namespace, Name: c.Name}
}

// condition says whether one holds.
func (m *Mesh) condition(ctx context.Context, c mesh.Condition, namespace string) (check.Check, error) {
	ref := ConditionRef(c, namespace)
	held := check.Check{Name: ref.String() + " is " + c.Type, Detail: "it is not there", Hint: "`kubectl -n " + namespace + " describe` it shows what its controller says"}
	o, err := m.cluster.Get(ctx, ref)
	if cluster.IsNotFound(err) {
		return held, nil
	}
	if err != nil {
		return held, err
	}
	if held.OK, held.Detail = c.Holds(o.Object); held.OK {
		held.Hint = ""
	}
	return held, nil
}

// whole says whether the gateway has counted every request that was answered: one that it has not came another way.
func whole(x mesh.Proxy, before, after []float64, answered int) check.Check {
	best := 0.0
	for i, c := range x.Counters {
		if c.Proves == mesh.ProvesL7 {
			best = max(best, after[i]-before[i])
		}
	}
	c := check.Check{Name: "every request comes through the " + x.Role, OK: answered > 0 && best >= float64(answered),
		Detail: fmt.Sprintf("%.0f requests came through it, %d were answered", best, answered)}
	if !c.OK {
		c.Hint = "the address that the load is sent to is not the gateway's"
	}
	return c
}
