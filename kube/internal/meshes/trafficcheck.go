package meshes

import (
	"context"
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/tare-mesh/tare/internal/base/check"
	"github.com/tare-mesh/tare/internal/experiment/mesh"
)

// trafficCheck verifies by the proxies' counters that traffic goes through each of them. It keeps the readings of one
// verification: a few requests need not reach every replica, so increases since the first round count.
type trafficCheck struct {
	*instance
	target Target
	reader podReader

	first, last map[string]readings // by the proxy's role
	answered    int                 // requests since the first reading
}

// check sends probes between two readings of the counters.
func (k *trafficCheck) check(ctx context.Context, g podGroups) ([]result, error) {
	proxies := k.proxies(k.target.Front != nil)
	pods := make([][]*corev1.Pod, len(proxies))
	for i, x := range proxies {
		var err error
		if pods[i], err = k.reader.podsOf(ctx, x, k.k.Namespace, g); err != nil {
			return nil, err
		}
		if k.target.Probe == nil || len(x.Counters) == 0 {
			continue
		}
		if err := k.readFirst(ctx, x, pods[i]); err != nil {
			return []result{unreadable(x, err)}, nil
		}
	}
	answered := 0
	if k.target.Probe != nil {
		var err error
		answered, err = k.target.Probe(ctx)
		k.answered += answered
		if err != nil {
			return results([]check.Check{{Name: "requests through the application", Detail: err.Error(), Hint: "the application must answer the load generator"}}), nil
		}
	}
	var all []result
	for i, x := range proxies {
		if len(x.Counters) == 0 {
			continue
		}
		after, err := k.reader.counters(ctx, x, pods[i])
		if err != nil {
			return append(all, unreadable(x, err)), nil
		}
		e := evidence{proxy: x, pods: pods[i], before: k.first[x.Role], after: after, probed: k.target.Probe != nil, answered: k.answered}
		all = append(all, results(e.checks(k.target, g, k.title()))...)
		if k.target.Probe != nil && k.isGateway(x) {
			all = append(all, result{Check: allThroughGateway(x, totals(x, k.last[x.Role]), totals(x, after), answered)})
		}
		k.last[x.Role] = after
	}
	return all, nil
}

// readFirst reads the counters of pods without a first reading.
func (k *trafficCheck) readFirst(ctx context.Context, x mesh.Proxy, pods []*corev1.Pod) error {
	known := k.first[x.Role]
	if known == nil {
		known = readings{}
		k.first[x.Role] = known
	}
	first, err := k.reader.counters(ctx, x, slices.DeleteFunc(slices.Clone(pods), func(p *corev1.Pod) bool { return known[p.UID] != nil }))
	maps.Copy(known, first)
	if k.last[x.Role] == nil {
		k.last[x.Role] = maps.Clone(known)
	}
	return err
}

// totals sums each counter of a proxy over its pods.
func totals(x mesh.Proxy, of readings) []float64 {
	sums := make([]float64, len(x.Counters))
	for _, r := range of {
		for i, n := range r {
			sums[i] += n
		}
	}
	return sums
}

// allThroughGateway checks that the gateway has counted every answered request. The others bypassed it.
func allThroughGateway(x mesh.Proxy, before, after []float64, answered int) check.Check {
	best := 0.0
	for i, c := range x.Counters {
		if c.Proves == mesh.ProvesL7 {
			best = max(best, after[i]-before[i])
		}
	}
	c := check.Check{Name: "every request comes through the " + x.Role, OK: answered > 0 && best >= float64(answered),
		Detail: fmt.Sprintf("%.0f requests came through it, %d were answered", best, answered)}
	if !c.OK {
		c.Hint = "the load is not sent to the gateway's address"
	}
	return c
}

// unreadable is the check of counters that could not be read.
func unreadable(x mesh.Proxy, err error) result {
	return result{impossible: true, Check: check.Check{Name: "counters of the " + x.Role, Detail: err.Error(),
		Hint: "tare reads them from the proxy's own port by a port-forward: the proxy must answer there"}}
}
