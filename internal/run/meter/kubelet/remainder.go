package kubelet

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/tare-mesh/tare/internal/experiment/mesh"
	"github.com/tare-mesh/tare/internal/metric"
	"github.com/tare-mesh/tare/internal/result"
	"github.com/tare-mesh/tare/internal/run/meter"
	"github.com/tare-mesh/tare/internal/run/platform"
)

const (
	// summaryPeriod is how often a kubelet is asked for its summary: the counters
	// taken from it are refreshed half as often.
	summaryPeriod = 5 * time.Second
	// summaryRounding: the summary's times are cut off to the second; on average half of one is lost.
	summaryRounding = 500 * time.Millisecond
	// podsGroup is the kubelet's name for the control group of all pods.
	podsGroup = "pods"
	// remainderName is the task of what is left.
	remainderName = "kernel"
)

// remainder works out what a node burns beside its pods: its daemons, which the
// kubelet counts, and what is left of the whole, which is the kernel's own work
// and every process that is in nobody's control group.
type remainder struct {
	node   string
	asked  time.Time
	whole  line
	groups []ownGroup // as the kubelet lists them
	was    int64      // ns, the last that was left
}

// ownGroup is one control group of the node's own.
type ownGroup struct {
	name string
	cpu  line
	rss  int64 // working set, bytes
	peak int64 // the highest that was seen
}

// summary is what of /stats/summary is used.
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

// readSummary reads a node's own control groups where it is time to.
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

// into adds the node's own tasks to a look, each as far as its counter has come.
func (r *remainder) into(look *meter.Look) {
	put := func(name, role string, reading result.Reading) {
		t := platform.Task{Task: mesh.Task{ID: r.node + "/" + name, Pod: r.node, Container: name, Plane: metric.Platform, Role: role}}
		look.Found = append(look.Found, t)
		look.Tasks[t.ID] = reading
	}
	for i, g := range r.groups {
		if g.name != podsGroup && !r.repeats(i) {
			last := g.cpu.last()
			put(g.name, mesh.RoleDaemon, result.Reading{At: last.at, CPU: last.cpu, RSS: g.rss, Peak: g.peak})
		}
	}
	if left, ok := r.left(); ok {
		put(remainderName, mesh.RoleRemainder, left)
	}
}

// repeats says that a control group is one that was listed already under another
// name: daemons may share one.
func (r *remainder) repeats(i int) bool {
	return slices.ContainsFunc(r.groups[:i], func(g ownGroup) bool { return g.cpu.last() == r.groups[i].cpu.last() })
}

// left is the whole without pods and daemons. Each of these counters is refreshed
// at times of its own; the answer is for the moment to which all of them have
// come, between two refreshes of each as if it had gone on evenly.
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
	r.was = max(r.was, cpu) // a counter does not go back, whatever the rounding of its parts
	return result.Reading{At: at, CPU: r.was}, true
}

// line is a counter at the times it was refreshed, ascending.
type line []point

type point struct {
	at  time.Time
	cpu int64 // ns
}

// kept is how many refreshes are looked back on: those of one counter may lag
// behind those of another by two or three.
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

// value is the counter at a moment that is not before the first or after the last refresh.
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
