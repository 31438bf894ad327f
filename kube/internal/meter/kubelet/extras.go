package kubelet

import (
	"context"
	"maps"

	"github.com/tare-mesh/tare/internal/result"
	"github.com/tare-mesh/tare/internal/run/meter"
	"github.com/tare-mesh/tare/internal/run/platform"
	"github.com/tare-mesh/tare/kube/internal/cluster"
)

// extras are the values read only at edges.
type extras struct {
	cadvisor cadvisor
	states   map[meter.Container]cluster.Container
	kills    map[meter.Container]meter.Kills
	peaks    map[meter.Container]int64
}

// readStates lists the containers of every namespace with a task. After an error the
// restarts of its containers are unknown.
func (m *Meter) readStates(ctx context.Context, tasks []platform.Task, into map[meter.Container]cluster.Container) {
	for _, namespace := range meter.Namespaces(tasks) {
		list, err := m.source.Containers(ctx, namespace)
		if err != nil {
			continue
		}
		for _, c := range list {
			into[meter.Container{Namespace: c.Namespace, Pod: c.Pod, Name: c.Name}] = c
		}
	}
}

// extras also keeps the highest working set of every container. It replaces the
// kernel's own maximum if cAdvisor does not report that.
func (m *Meter) extras(answers []answer, states map[meter.Container]cluster.Container, depth meter.Depth) extras {
	m.mu.Lock()
	defer m.mu.Unlock()
	x := extras{states: states, cadvisor: cadvisor{byName: map[meter.Container]group{}, byID: map[string]group{}}}
	for _, a := range answers {
		for key, r := range a.resources.containers {
			m.peaks[key] = max(m.peaks[key], r.RSS)
		}
		maps.Copy(x.cadvisor.byName, a.cadvisor.byName)
		maps.Copy(x.cadvisor.byID, a.cadvisor.byID)
	}
	if depth < meter.Edge {
		return x
	}
	for key, c := range states {
		m.kills[key] = m.kills[key].After(c.Restarts, c.OOMKilled)
	}
	x.peaks, x.kills = maps.Clone(m.peaks), maps.Clone(m.kills)
	return x
}

func (x extras) fill(r *result.Reading, key meter.Container) {
	state, known := x.states[key]
	g, counted := x.cadvisor.byName[key]
	if !counted && known {
		g, counted = x.cadvisor.byID[state.ID]
	}
	r.Peak = max(x.peaks[key], g.peak)
	switch none := int64(0); {
	case counted:
		r.Throttled = &g.throttled
	case known && !state.Limited:
		r.Throttled = &none
	}
	if known {
		r.Restarts, r.OOMKills = state.Restarts, x.kills[key].Seen()
	}
}
