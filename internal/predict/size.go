package predict

import (
	"fmt"
	"maps"
	"math"
	"slices"

	"github.com/tare-mesh/tare/internal/base/hint"
	"github.com/tare-mesh/tare/internal/compare"
	"github.com/tare-mesh/tare/internal/experiment"
	"github.com/tare-mesh/tare/internal/experiment/mesh"
	"github.com/tare-mesh/tare/internal/experiment/plan"
	"github.com/tare-mesh/tare/internal/metric"
	"github.com/tare-mesh/tare/internal/result"
	"github.com/tare-mesh/tare/internal/result/balance"
)

// Sizing is what sizes are for.
type Sizing struct {
	Rate     float64 `json:"rate"`     // requests/s through one proxy
	Headroom float64 `json:"headroom"` // share above what was measured, 0.3 for 30 %
}

// Size is what one proxy of a kind needs.
type Size struct {
	Factors plan.Factors `json:"factors"` // of the treatments that were measured, without the rate
	Proxy   string       `json:"proxy"`   // kind: "sidecar of echo", "waypoint"
	CPU     Band         `json:"cpu"`     // cores, without headroom
	Memory  Band         `json:"memory"`  // MiB at the end of the measure phase, without headroom
	Peak    float64      `json:"peak"`    // MiB, the largest of any proxy of the kind

	RequestCPU    float64 `json:"request_cpu"`    // cores
	RequestMemory float64 `json:"request_memory"` // MiB
	LimitMemory   float64 `json:"limit_memory"`   // MiB
	Curve         *Curve  `json:"curve"`          // of CPU
}

// steps round requests up: to 5 thousandths of a core, and to 2 MiB.
const (
	stepCPU    = 0.005
	stepMemory = 2
)

// Sizes returns the size of each kind of proxy of each treatment of a run.
func Sizes(run *compare.Run, s Sizing) (all []Size, err error) {
	seen := map[string]bool{}
	for _, t := range run.Plan.Treatments {
		rest := compare.WithoutRate(t.Factors)
		key := fmt.Sprint(rest)
		if _, numeric := t.Factors[experiment.RateFactor].(float64); t.Control || !numeric || seen[key] {
			continue
		}
		seen[key] = true
		measured := proxiesOf(run, key)
		for _, kind := range slices.Sorted(maps.Keys(measured)) {
			size, err := sizeOf(measured[kind], run.Confidence(), s)
			if err != nil {
				return nil, fmt.Errorf("%s, %v: %w", kind, rest[experiment.MeshFactor], err)
			}
			size.Factors, size.Proxy = rest, kind
			all = append(all, size)
		}
	}
	if all == nil {
		return nil, hint.New("measure a mesh at several rates, such as --set 'factors.rate=[100, 300, 1000]'", "no valid trial of the run has a proxy of its own and a rate")
	}
	return all, nil
}

// measured are the trials with a kind of proxy.
type measured struct {
	cpu, memory []Point
	peak        float64
}

// proxiesOf returns the valid trials of treatments that differ in rate alone, by kind of proxy.
func proxiesOf(run *compare.Run, key string) map[string]*measured {
	kinds := map[string]*measured{}
	for i := range run.Records {
		r, t := &run.Records[i], &run.Trials[i]
		answered, known := t.Metrics[metric.Rate]
		asked, numeric := t.Factors[experiment.RateFactor].(float64)
		if !t.Valid || t.Control || !known || !numeric || r.Load == nil || r.Load.Completed == 0 || fmt.Sprint(compare.WithoutRate(t.Factors)) != key {
			continue
		}
		for kind, tasks := range proxyTasks(r) {
			if kinds[kind] == nil {
				kinds[kind] = &measured{}
			}
			kinds[kind].add(t.Block, asked, answered/float64(r.Load.Completed), tasks)
		}
	}
	return kinds
}

// add adds the mean proxy of a trial. perSecond is answers a second for each answer of the trial: it makes a rate of CPU.
func (m *measured) add(block int, rate, perSecond float64, tasks []result.TaskUsage) {
	n := float64(len(tasks))
	var cpu, memory float64
	for _, t := range tasks {
		cpu += float64(t.End.CPU-t.Start.CPU) / 1e9 * perSecond / n
		memory += float64(t.End.RSS) / (1 << 20) / n
		m.peak = max(m.peak, float64(max(t.End.Peak, t.End.RSS))/(1<<20))
	}
	m.cpu = append(m.cpu, Point{block, rate / n, cpu})
	m.memory = append(m.memory, Point{block, rate / n, memory})
}

// proxyTasks returns the proxies through which all requests of the load pass, by kind: the sidecars of the service that
// the load calls, and each other kind. Those of other services have other rates.
func proxyTasks(r *result.Record) map[string][]result.TaskUsage {
	entry := ""
	if r.Balance != nil {
		for _, f := range r.Balance.Flows {
			if f.Service == balance.LoadName && f.Point == balance.Sent {
				entry = f.To
			}
		}
	}
	kinds := map[string][]result.TaskUsage{}
	for _, t := range r.Tasks {
		kind := t.Role
		if kind == mesh.RoleSidecar {
			kind = "sidecar of " + entry
		}
		if t.Plane != metric.Data || t.Component != "" || t.Role == mesh.RoleSidecar && t.Service != entry {
			continue
		}
		kinds[kind] = append(kinds[kind], t)
	}
	maps.DeleteFunc(kinds, func(_ string, tasks []result.TaskUsage) bool {
		return slices.ContainsFunc(tasks, func(t result.TaskUsage) bool { return t.Missing != "" || t.Ended })
	})
	return kinds
}

func sizeOf(m *measured, confidence float64, s Sizing) (size Size, err error) {
	if size.Curve, err = Fit(m.cpu, confidence); err != nil {
		return size, err
	}
	if size.CPU, err = size.Curve.At(s.Rate); err != nil {
		return size, err
	}
	memory, err := Fit(m.memory, confidence)
	if err != nil {
		return size, fmt.Errorf("memory: %w", err)
	}
	if size.Memory, err = memory.At(s.Rate); err != nil {
		return size, err
	}
	up := func(v, step float64) float64 { return math.Ceil(v*(1+s.Headroom)/step) * step }
	size.Peak = m.peak
	size.RequestCPU, size.RequestMemory = up(size.CPU.Estimate, stepCPU), up(size.Memory.NewHigh, stepMemory)
	size.LimitMemory = max(size.RequestMemory, up(m.peak, stepMemory))
	return size, nil
}
