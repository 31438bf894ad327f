package runner

import (
	"cmp"
	"errors"
	"testing"
	"time"

	"github.com/tare-mesh/tare/internal/experiment"
	"github.com/tare-mesh/tare/internal/experiment/mesh"
	"github.com/tare-mesh/tare/internal/metric"
	"github.com/tare-mesh/tare/internal/result"
	"github.com/tare-mesh/tare/internal/run/meter"
	"github.com/tare-mesh/tare/internal/run/platform"
	"github.com/tare-mesh/tare/test/difftest"
)

// Tasks that faults end and restart, with counters that have a refresh interval. A task counts from its first
// edge or its start, to its last edge or its last reading.
func TestRefreshedUsageUnderFaults(t *testing.T) {
	at := time.Unix(1000, 0)
	s := span{loaded: at.Add(-2 * time.Second), begin: at, end: at.Add(20 * time.Second), done: at.Add(21 * time.Second)}
	for name, c := range map[string]struct {
		seconds         []int // of the readings, in which a task burns a core
		born            int
		atFirst, atLast bool
		missing, ended  bool
		cpu             time.Duration
		plane           metric.Plane
		successor       int // second of a reading of a pod with the same name, born a second before
	}{
		"stays":             {seconds: []int{-1, 5, 19}, born: -10, atFirst: true, atLast: true, cpu: 20 * time.Second},
		"ends":              {seconds: []int{-1, 5}, born: -10, atFirst: true, ended: true, cpu: 6 * time.Second},
		"is replaced":       {seconds: []int{-1, 5}, born: -10, atFirst: true, ended: true, cpu: 6 * time.Second, successor: 9},
		"starts":            {seconds: []int{8, 20}, born: 5, atLast: true, cpu: 15 * time.Second},
		"starts and ends":   {seconds: []int{8, 10}, born: 5, ended: true, cpu: 5 * time.Second},
		"lives too briefly": {born: 5, missing: true},
		// The fault hit no control plane, so that another reason ended it.
		"control plane ends": {seconds: []int{-1, 5}, born: -10, atFirst: true, plane: metric.Control, missing: true},
	} {
		faulty := &setup{run: &run{Config: Config{Experiment: &experiment.Experiment{Faults: []experiment.Fault{{Kind: "kill"}}}}}}
		tr := &measurement{setup: faulty, sampler: &sampler{}}
		tr.sampler.history.tasks = map[string][]result.Reading{}
		for _, second := range c.seconds {
			tr.sampler.history.tasks["x"] = append(tr.sampler.history.tasks["x"],
				result.Reading{At: at.Add(time.Duration(second) * time.Second), CPU: int64(time.Duration(second-c.born) * time.Second)})
		}
		if c.successor > 0 {
			tr.sampler.history.tasks["x"] = append(tr.sampler.history.tasks["x"], result.Reading{At: at.Add(time.Duration(c.successor) * time.Second), CPU: int64(time.Second)})
		}
		u, _, _ := tr.usageOf(platform.Task{Task: mesh.Task{ID: "x", Plane: cmp.Or(c.plane, metric.App)}, Restarted: c.born > 0}, s, c.atFirst, c.atLast)
		if (u.Missing != "") != c.missing || u.Ended != c.ended || time.Duration(u.End.CPU-u.Start.CPU) != c.cpu {
			t.Errorf("%s: %+v, want %v", name, u, c.cpu)
		}
		if u.Ended && !u.End.At.Equal(s.end) {
			t.Errorf("%s: its last reading is at %v", name, u.End.At)
		}
	}
}

// A time without readings is a gap whether its request failed or was answered late.
func TestGapsOfHistory(t *testing.T) {
	at := time.Unix(1000, 0)
	second := func(n int) time.Time { return at.Add(time.Duration(n) * time.Second) }
	refused := meter.Look{Gap: errors.New("connection refused")}
	var h history
	h.add(meter.Look{}, second(0), second(9))
	h.add(refused, second(10), second(11))
	h.add(refused, second(12), second(13))
	h.add(meter.Look{}, second(14), second(34)) // ends the gap
	h.add(meter.Look{}, second(40), second(59))
	if len(h.gaps) != 2 {
		t.Fatalf("%+v", h.gaps)
	} else if d := difftest.Of("h.gaps[0].from", h.gaps[0].from, second(10), "h.gaps[0].to", h.gaps[0].to, second(34), "h.gaps[1].from", h.gaps[1].from, second(40), "h.gaps[1].to", h.gaps[1].to, second(59)); d != "" {
		t.Fatalf("%s: %+v", d, h.gaps)
	}
	if why := h.gaps[1].why.Error(); why != "the answer took 19s" {
		t.Error(why)
	}
}
