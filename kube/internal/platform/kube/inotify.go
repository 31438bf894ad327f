package kube

import (
	"context"
	"fmt"
	"slices"

	"github.com/tare-mesh/tare/internal/experiment/mesh"
	"github.com/tare-mesh/tare/internal/inside/nodeagent"
)

// inotifyOfSidecar is about how many inotify instances a sidecar takes. The sidecars of a node have the same user, who may have 128 by
// default: the forty-third does not start.
const inotifyOfSidecar = 3

// noteInotify reports, once in a run, that the nodes permit fewer inotify instances than the sidecars of a trial take. Only node agents
// can read the setting.
func (p *Platform) noteInotify(ctx context.Context, t *trial) {
	k := t.spec.Mesh.Kubernetes
	if p.options.Agents == nil || t.cluster.DryRun() || k == nil || !slices.ContainsFunc(k.Proxies, func(x mesh.Proxy) bool { return x.In == mesh.InPod }) {
		return
	}
	sidecars := 0
	for _, s := range t.agentServices() {
		sidecars += max(1, s.Replicas)
	}
	limits := map[string]int64{}
	for _, a := range p.options.Agents.All() {
		if r, err := a.Read(ctx, nodeagent.Query{}); err == nil && r.Node != nil && r.Node.Inotify > 0 {
			limits[a.Node.Name] = r.Node.Inotify
		}
	}
	if text := fewInotify(sidecars, limits); text != "" {
		p.fewInotify.Do(func() { p.options.Report(text) })
	}
}

// fewInotify is the message about nodes whose inotify instances do not suffice for sidecars, "" if they do.
func fewInotify(sidecars int, limits map[string]int64) string {
	var all, least int64
	for _, limit := range limits {
		all += limit
		if least == 0 || limit < least {
			least = limit
		}
	}
	if len(limits) == 0 || int64(sidecars)*inotifyOfSidecar <= all {
		return ""
	}
	needed := int64(sidecars) * inotifyOfSidecar / int64(len(limits))
	enough := int64(1024)
	for enough < 2*needed {
		enough *= 2
	}
	return fmt.Sprintf("the nodes permit a user %d inotify instances, and %d sidecars take about %d on each: pods will fail with \"too many open files\". Raise it on each node: sysctl -w fs.inotify.max_user_instances=%d",
		least, sidecars, needed, enough)
}
