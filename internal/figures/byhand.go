package figures

import (
	"math"
	"time"

	"github.com/tare-mesh/tare/internal/experiment/expect"
	"github.com/tare-mesh/tare/internal/metric"
	"github.com/tare-mesh/tare/internal/result"
)

// HandPhase is the part of a trial between two changes by hand. Nothing is compared with it.
type HandPhase struct {
	From    float64            `json:"from"` // seconds of the measure phase
	To      float64            `json:"to"`
	Changes []result.ByHand    `json:"changes,omitempty"` // that it begins with
	Metrics map[string]float64 `json:"metrics"`           // known ones
}

// handGap is the time up to which changes belong together: the replicas of a service are changed one after another.
const handGap = 1.0 // s

// handPhases divides the measure phase of a trial at its changes by hand. path is its latency log.
func handPhases(r *result.Record, path string) []HandPhase {
	if len(r.ByHand) == 0 || r.Error != "" || r.Load == nil {
		return nil
	}
	first, n := r.Load.Window()
	phases, settled := []HandPhase{{}}, []float64{0} // settled is the time of the last change of each
	for _, h := range r.ByHand {
		at, last := h.At.Sub(r.Load.Start).Seconds(), len(phases)-1
		switch {
		case at >= float64(n):
			continue
		case at > 0 && (len(phases[last].Changes) == 0 || at > settled[last]+handGap):
			phases[last].To = at
			phases, settled = append(phases, HandPhase{From: at}), append(settled, at)
			last++
		}
		phases[last].Changes, settled[last] = append(phases[last].Changes, h), max(0, at)
	}
	phases[len(phases)-1].To = float64(n)
	seconds, err := expect.ReadSeconds(path, first, n)
	for i := range phases {
		from, to := int(math.Ceil(settled[i])), int(phases[i].To)
		phases[i].Metrics = map[string]float64{}
		if err == nil && to > from {
			phases[i].measure(r, seconds[from:to], float64(from), float64(to))
		}
	}
	return phases
}

// measure computes the figures of whole seconds of a phase.
func (p *HandPhase) measure(r *result.Record, seconds []expect.Second, from, to float64) {
	var right, wrong, other int64
	for _, s := range seconds {
		right, wrong, other = right+s.OK, wrong+s.Status, other+s.Other
	}
	rate := float64(right+wrong) / (to - from)
	p.Metrics[metric.Rate] = rate
	if ended := right + wrong + other; ended > 0 {
		p.Metrics[metric.ErrorRatio] = float64(wrong+other) / float64(ended)
	}
	if h := expect.Latencies(seconds); h != nil {
		for _, q := range quantiles {
			if float64(h.TotalCount()) >= math.Round(tailSamples/(1-q.q)) {
				p.Metrics[metric.Of(metric.Latency, q.part)] = float64(h.ValueAtPercentile(100*q.q)) / float64(time.Millisecond)
			}
		}
	}
	if r.Load.Slices != nil || rate == 0 {
		return // counters have the slices of other treatments
	}
	for _, part := range metric.Parts() {
		if cores, known := coresBetween(r, part, from, to); known {
			p.Metrics[metric.Of(metric.CPUCores, part.Name)] = cores
			p.Metrics[metric.Of(metric.CPUPerRequest, part.Name)] = cores / rate * 1e6
		}
	}
}

// coresBetween is the CPU of a part's tasks between the outermost readings of each within two seconds of the measure phase.
func coresBetween(r *result.Record, part metric.Part, from, to float64) (cores float64, known bool) {
	for i := range r.Tasks {
		t := &r.Tasks[i]
		if !isOf(part, t) {
			continue
		}
		var a, b *result.MemoryReading
		for k := range t.Memory {
			if m := &t.Memory[k]; m.CPU > 0 && m.Seconds >= from && m.Seconds <= to {
				if b = m; a == nil {
					a = m
				}
			}
		}
		if a == b {
			return 0, false
		}
		cores, known = cores+float64(b.CPU-a.CPU)/1e9/(b.Seconds-a.Seconds), true
	}
	return cores, known
}
