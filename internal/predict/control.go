package predict

import (
	"slices"

	"github.com/tare-mesh/tare/internal/experiment"
	"github.com/tare-mesh/tare/internal/metric"
	"github.com/tare-mesh/tare/internal/result"
)

// controlMeasured are the trials with a control plane, of which all tasks are one.
type controlMeasured struct {
	measured
	proxies []float64 // that it served
}

// add adds the control plane of a trial. Its cost depends on what it must know, not on requests.
func (m *controlMeasured) add(r *result.Record, block int, levels []float64, perSecond float64) {
	var cpu, memory, peak, proxies float64
	for _, t := range r.Tasks {
		switch {
		case t.Plane == metric.Data:
			proxies++
		case t.Plane != metric.Control:
		case t.Missing != "" || t.Ended:
			return
		default:
			cpu += float64(t.End.CPU-t.Start.CPU) / 1e9 * perSecond
			memory += float64(t.End.RSS) / (1 << 20)
			peak += float64(max(t.End.Peak, t.End.RSS)) / (1 << 20)
		}
	}
	if cpu > 0 && memory > 0 {
		m.cpu, m.memory = append(m.cpu, Point{block, levels, cpu}), append(m.memory, Point{block, levels, memory})
		m.peak, m.proxies = max(m.peak, peak), append(m.proxies, proxies)
	}
}

// controlSize returns the size of the control plane over the options of the mesh that are axes. Without such options it is
// the mean. ok is false without a control plane, or if the levels are too few for a curve.
func (g *group) controlSize(s Sizing, confidence float64) (size Size, ok bool) {
	all := s.axes()
	var axes []string
	for _, axis := range all {
		if !slices.Contains(loadAxes, axis) {
			axes = append(axes, axis)
		}
	}
	at := make([]float64, len(axes))
	for i, axis := range axes {
		at[i] = s.At[axis]
	}
	band := func(points []Point) (*Curve, Band, error) {
		over := make([]Point, len(points))
		for i, p := range points {
			over[i] = Point{Block: p.Block, Cost: p.Cost, At: make([]float64, len(axes))}
			for j, axis := range axes {
				over[i].At[j] = p.At[slices.Index(all, axis)]
			}
		}
		c, err := Fit(over, axes, confidence)
		if err != nil {
			return nil, Band{}, err
		}
		b, err := c.At(at...)
		return c, b, err
	}
	var errCPU, errMemory error
	size.Curve, size.CPU, errCPU = band(g.control.cpu)
	size.MemoryCurve, size.Memory, errMemory = band(g.control.memory)
	if errCPU != nil || errMemory != nil {
		return size, false
	}
	size.Place = at
	size.request(g.control.peak, s)
	size.Factors, size.Proxy, size.Workers, size.Mesh = g.factors, ControlPlane, 1, g.mesh
	for _, n := range g.control.proxies {
		size.Proxies += n / float64(len(g.control.proxies))
	}
	return size, true
}

// loadAxes are the axes of requests and connections, on which a control plane does not depend.
var loadAxes = []string{experiment.RateFactor, experiment.ConnectionsFactor, experiment.ConnectionRateFactor, experiment.RequestSizeFactor, experiment.ResponseSizeFactor}
