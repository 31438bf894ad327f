package kubelet

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/tare-mesh/tare/internal/experiment/mesh"
	"github.com/tare-mesh/tare/internal/result"
	"github.com/tare-mesh/tare/internal/run/meter"
)

const (
	// summaryPeriod is the time between two reads of the summary, whose counters are
	// refreshed half as often.
	summaryPeriod = 5 * time.Second
	// summaryRounding: the summary's times are truncated to the second, by half a second on average.
	summaryRounding = 500 * time.Millisecond
	// podsGroup is the kubelet's name for the control group of all pods.
	podsGroup = "pods"
	// remainderName is the task of the remainder.
	remainderName = "kernel"
)

// remainder computes a node's usage outside its pods: its daemons, counted by the
// kubelet, and the remainder of the total. The remainder is the kernel's own work
// and every process without a control group.
type remainder struct {
	node   string
	asked  time.Time
	whole  line
	groups []ownGroup // in the order of the kubelet
	was    int64      // ns, the last remainder
}

// ownGroup is one control group of the node's own.
type ownGroup struct {
	name string
	cpu  line
	rss  int64 // working set, bytes
	peak int64 // the highest observed
}

// summary is the used part of /stats/summary.
type summary struct {
	Node struct {
		SystemContainers []struct {
			Name string `json:"name"`
			CPU  *struct {
				Time time.Time `json:"time"`
				NS   *int64    `json:"usageCoreNanoSeconds"`
			} `json:"cpu"`
			Memory *struct {
				WorkingSet int64 `json:"workingSetBytes"`
			} `json:"memory"`
		} `json:"systemContainers"`
	} `json:"node"`
}

// readSummary reads a node's own control groups once per summaryPeriod.
func (m *Meter) readSummary(ctx context.Context, node string) error {
	m.mu.Lock()
	due := time.Since(m.own[node].asked) >= summaryPeriod
	m.mu.Unlock()
	if !due {
		return nil
	}
	s, err := read(ctx, m.source, node, summaryPath, parseSummary)
	if err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	own := m.own[node]
	own.asked = time.Now()
	for _, c := range s.Node.SystemContainers {
		if c.CPU == nil || c.CPU.NS == nil {
			continue
		}
		g := own.group(c.Name)
		g.cpu.add(c.CPU.Time.Add(summaryRounding), *c.CPU.NS)
		if c.Memory != nil {
			g.rss = c.Memory.WorkingSet
			g.peak = max(g.peak, g.rss)
		}
	}
	return nil
}

func parseSummary(body []byte) (s summary, err error) {
	if err := json.Unmarshal(body, &s); err != nil {
		return s, fmt.Errorf("read /stats/summary: %w", err)
	}
	return s, nil
}

func (r *remainder) group(name string) *ownGroup {
	i := slices.IndexFunc(r.groups, func(g ownGroup) bool { return g.name == name })
	if i < 0 {
		i = len(r.groups)
		r.groups = append(r.groups, ownGroup{name: name})
	}
	return &r.groups[i]
}

// into adds the node's own tasks to a reading, with their last counters.
func (r *remainder) into(look *meter.Look) {
	for i, g := range r.groups {
		if g.name != podsGroup && !r.repeats(i) {
			last := g.cpu.last()
			look.AddNodeTask(r.node, g.name, mesh.RoleDaemon, result.Reading{At: last.at, CPU: last.cpu, RSS: g.rss, Peak: g.peak})
		}
	}
	if left, ok := r.left(); ok {
		look.AddNodeTask(r.node, remainderName, mesh.RoleRemainder, left)
	}
}

// repeats reports whether a control group is listed under another name already:
// daemons may share one.
func (r *remainder) repeats(i int) bool {
	return slices.ContainsFunc(r.groups[:i], func(g ownGroup) bool { return g.cpu.last() == r.groups[i].cpu.last() })
}

// left is the total without pods and daemons. Each of these counters is refreshed at
// its own times. The result is for the latest moment that all of them cover, with
// linear interpolation between two refreshes.
func (r *remainder) left() (result.Reading, bool) {
	lines := []line{r.whole}
	pods := false
	for i, g := range r.groups {
		if !r.repeats(i) {
			lines = append(lines, g.cpu)
			pods = pods || g.name == podsGroup
		}
	}
	if !pods || len(r.whole) == 0 {
		return result.Reading{}, false
	}
	at := r.whole.last().at
	for _, l := range lines {
		if t := l.last().at; t.Before(at) {
			at = t
		}
	}
	cpu := int64(0)
	for i, l := range lines {
		v, ok := l.value(at)
		if !ok {
			return result.Reading{}, false
		}
		if i > 0 {
			v = -v
		}
		cpu += v
	}
	r.was = max(r.was, cpu) // counters never decrease, despite the rounding of their parts
	return result.Reading{At: at, CPU: r.was}, true
}

// line is a counter at its refreshes, ascending.
type line []point

type point struct {
	at  time.Time
	cpu int64 // ns
}

// kept is the number of kept refreshes. One counter may be two or three refreshes
// behind another.
const kept = 8

func (l *line) add(at time.Time, cpu int64) {
	if n := len(*l); n > 0 && !at.After((*l)[n-1].at) {
		return
	}
	*l = append(*l, point{at, cpu})
	if len(*l) > kept {
		*l = slices.Delete(*l, 0, 1)
	}
}

func (l line) last() point { return l[len(l)-1] }

// value is the counter at a moment between the first and the last refresh.
func (l line) value(at time.Time) (int64, bool) {
	for i, p := range l {
		if p.at.Before(at) {
			continue
		}
		if p.at.Equal(at) {
			return p.cpu, true
		}
		if i == 0 {
			return 0, false
		}
		was := l[i-1]
		return was.cpu + int64(float64(p.cpu-was.cpu)*float64(at.Sub(was.at))/float64(p.at.Sub(was.at))), true
	}
	return 0, false
}
