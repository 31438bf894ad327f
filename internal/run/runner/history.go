package runner

import (
	"fmt"
	"time"

	"github.com/tare-mesh/tare/internal/result"
	"github.com/tare-mesh/tare/internal/run/meter"
	"github.com/tare-mesh/tare/internal/run/platform"
)

// history is the readings of counters with a refresh interval: by task, oldest first,
// each refresh once.
type history struct {
	tasks map[string][]result.Reading
	node  []result.NodeReading
	nodes map[string][]result.NodeReading // by name
	gaps  []gap
}

// gap is a time without readings.
type gap struct {
	from, to time.Time // to is zero until it ends
	why      error
}

// slowAnswer is the time of an answer above which it ends a gap: attempts that failed before it are repeated in silence.
const slowAnswer = 10 * time.Second

// add adds the new readings of l and returns them. asked and answered are the times of the
// request and the answer.
func (h *history) add(l meter.Look, asked, answered time.Time) (fresh map[string]result.Reading, nodes map[string]result.NodeReading) {
	if h.tasks == nil {
		h.tasks, h.nodes = map[string][]result.Reading{}, map[string][]result.NodeReading{}
	}
	if l.Gap != nil {
		if n := len(h.gaps); n == 0 || !h.gaps[n-1].to.IsZero() {
			h.gaps = append(h.gaps, gap{from: asked, why: l.Gap})
		}
		return nil, nil
	}
	if n := len(h.gaps); n > 0 && h.gaps[n-1].to.IsZero() {
		h.gaps[n-1].to = answered
	} else if took := answered.Sub(asked); took > slowAnswer {
		h.gaps = append(h.gaps, gap{asked, answered, fmt.Errorf("the answer took %v", took.Round(time.Second))})
	}
	fresh, nodes = map[string]result.Reading{}, map[string]result.NodeReading{}
	for id, r := range l.Tasks {
		if all := h.tasks[id]; len(all) == 0 || r.At.After(all[len(all)-1].At) {
			h.tasks[id] = append(all, r)
			fresh[id] = r
		}
	}
	if l.Node != nil {
		h.node = addNode(h.node, *l.Node)
	}
	for _, m := range l.Nodes {
		before := len(h.nodes[m.Name])
		h.nodes[m.Name] = addNode(h.nodes[m.Name], m.Reading)
		if len(h.nodes[m.Name]) > before {
			nodes[m.Name] = m.Reading
		}
	}
	return fresh, nodes
}

func addNode(to []result.NodeReading, r result.NodeReading) []result.NodeReading {
	if n := len(to); n > 0 && !r.At.After(to[n-1].At) {
		return to
	}
	return append(to, r)
}

// cores is the CPU of each plane between the last two refreshes of each of its tasks.
func (h *history) cores(tasks []platform.Task) map[string]float64 {
	cores := map[string]float64{}
	for _, task := range tasks {
		if all := h.tasks[task.ID]; len(all) > 1 {
			was, is := all[len(all)-2], all[len(all)-1]
			cores[string(task.Plane)] += float64(is.CPU-was.CPU) / float64(is.At.Sub(was.At))
		}
	}
	return cores
}
