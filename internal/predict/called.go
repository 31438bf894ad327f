package predict

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"time"

	"github.com/tare-mesh/tare/internal/experiment"
	"github.com/tare-mesh/tare/internal/experiment/app"
	"github.com/tare-mesh/tare/internal/experiment/mesh"
	"github.com/tare-mesh/tare/internal/metric"
	"github.com/tare-mesh/tare/internal/result"
	"github.com/tare-mesh/tare/internal/result/balance"
)

// calledMemory is the memory of a sidecar with inbound calls, over the number of services that it calls.
var calledMemory = quantity{Memory, "called services"}

// calledAxes is the axis of its curve.
var calledAxes = []string{"services that a sidecar calls"}

// AssumedCalled is half of the most memory of a called service, MiB, where no run has it. Envoy 1.40 had 0.24 to 0.42 MiB
// for each of 1 to 11 called services. The memory is between none and twice this.
const AssumedCalled = 0.3

// callersRun are the changes of an experiment that measures the memory of called services, with hardly any traffic.
var callersRun = []string{"application.topology=callers", "factors.rate=[10]", "factors.connections=[2]", "factors.responseSize=[100]", "factors.protocol=[http1]"}

// mostCallers is the most services that one of that application calls.
const mostCallers = 11

// callersFor returns the source of a run of services that call others by a protocol.
func (c *Costs) callersFor(dir, protocol string) *source { return sourceOf(&c.called, dir, protocol) }

// addCallers adds the memory of sidecars by the number of services that theirs calls: a mean for each number in a trial.
func (s *source) addCallers(r *result.Record, block int) {
	called := map[string]map[string]bool{}
	if r.Balance == nil {
		return
	}
	for _, f := range r.Balance.Flows {
		if f.Point == balance.Sent && f.Service != app.LoadName {
			if called[f.Service] == nil {
				called[f.Service] = map[string]bool{}
			}
			called[f.Service][f.To] = true
		}
	}
	memory, n := map[int]float64{}, map[int]float64{}
	for _, t := range r.Tasks {
		if t.Plane != metric.Data || t.Role != mesh.RoleSidecar || t.Missing != "" || t.Ended || t.Component != "" {
			continue
		}
		k := len(called[t.Service])
		memory[k] += float64(t.End.RSS) / (1 << 20)
		n[k]++
	}
	for _, k := range slices.Sorted(maps.Keys(n)) {
		s.points[calledMemory] = append(s.points[calledMemory], Point{block, []float64{float64(k)}, memory[k] / n[k]})
	}
}

// fitCalled fits the curve of called services. Without a sidecar that calls none it has nothing to compare with.
func (s *source) fitCalled(confidence float64) {
	curve, err := Fit(s.points[calledMemory], calledAxes, confidence)
	if few, ok := err.(*FewError); ok && few.Rates < minRates {
		err = fmt.Errorf("sidecars call %d different numbers of services, and %d are needed", few.Rates, minRates)
	}
	if err == nil && curve.Axes[0].From > 0 {
		err = fmt.Errorf("every sidecar calls another service")
	}
	if err != nil {
		s.missing[calledMemory] = fmt.Errorf("%s: %w", s.dir, err)
		return
	}
	curve.Reason = "the memory of a sidecar that calls no other service, and memory for every called service"
	s.curves[calledMemory] = curve
}

// addCalled adds the memory of the services that a service calls. Those beyond the most that a run has are assumed.
func (c *Costs) addCalled(p *proxy, s app.Service) {
	services := map[string]bool{}
	for _, call := range s.Calls {
		if call.Service != "" {
			services[call.Service] = true
		}
	}
	n := float64(len(services))
	p.assumed = n
	for _, src := range c.called {
		curve := src.curves[calledMemory]
		if curve == nil || n == 0 {
			continue
		}
		at := math.Min(n, curve.Axes[0].To)
		p.memory = append(p.memory,
			part{source: src, curve: curve, at: []float64{at}, weight: 1, withoutCalls: true},
			part{source: src, curve: curve, at: []float64{0}, weight: -1, withoutCalls: true})
		p.assumed = n - at
		return
	}
}

// addMemory adds the memory that calls of one kind need in a sidecar, and a share of the memory that it has without them. Calls
// have memory beside one another: connections and buffers. What a sidecar has at the lowest measured levels, calls share.
func (c *Costs) addMemory(p *proxy, call Call, q quantity, share float64) error {
	own := call.Rate / p.replicas
	if err := c.add(p, call, q, own, 0, 1); err != nil {
		return err
	}
	if share == 1 {
		return nil
	}
	base := p.memory[len(p.memory)-1]
	base.at, base.weight, base.withoutCalls = make([]float64, len(base.curve.Axes)), share-1, true
	for i, axis := range base.curve.Axes {
		base.at[i] = axis.From
	}
	p.memory = append(p.memory, base)
	return nil
}

// calledStep is the run that measures the memory of called services, if a forecast assumes it.
func calledStep(sources []Source, forecasts []Forecast) []Step {
	for _, f := range forecasts {
		i := slices.IndexFunc(sources, func(s Source) bool { return slices.Contains(f.From, s.Dir) })
		if f.Memory.Causes.Called == 0 || i < 0 {
			continue
		}
		run, meshes := sources[i].Run, map[any]bool{}
		for _, t := range run.Plan.Treatments {
			meshes[t.Factors[experiment.MeshFactor]] = true
		}
		blocks := max(2*minBlocks, run.Count().Blocks)
		return []Step{{
			What:  fmt.Sprintf("the memory of called services, up to %d of one, as a further run for --from: none to %.2g MiB each is assumed", mostCallers, 2*AssumedCalled),
			Set:   append(slices.Clone(callersRun), fmt.Sprintf("blocks=%d", blocks)),
			Takes: run.Plan.TrialTime * time.Duration(len(meshes)*blocks),
			Dir:   sources[i].Dir,
		}}
	}
	return nil
}
