package runner

import (
	"testing"
	"time"

	"github.com/tare-mesh/tare/internal/experiment/mesh"
	"github.com/tare-mesh/tare/internal/load"
	"github.com/tare-mesh/tare/internal/metric"
	"github.com/tare-mesh/tare/internal/result"
	"github.com/tare-mesh/tare/internal/run/meter"
	"github.com/tare-mesh/tare/internal/run/platform"
)

// work is the CPU of a simulated task, as a function of time.
type work struct {
	idle     float64       // cores, always
	starting float64       // cores, until the end of the warm-up's first tenth
	request  time.Duration // for each request, when it is answered
	deferred time.Duration // for each request, after
	delay    time.Duration
	flush    time.Duration // deferred work waits for the next multiple of it
}

// Schedule of the simulation: one of three members, 10 requests in each of its slices.
const (
	simSlice   = 100 * time.Millisecond
	simMembers = 3
	simEach    = 10
)

// simulate returns the member after a block of a warm-up and a measure phase, and the deferred work in the slices
// of others.
func simulate(w work, warmup, measure time.Duration) (m *sliceMember, deferred time.Duration) {
	slices := int((warmup + measure) / simSlice)
	r := &sliceReader{first: int(warmup / simSlice), window: idleWindow(measure), deferral: 2 * time.Second, table: load.Slices{Length: simSlice, Owners: make(load.Owners, slices)}}
	done := map[time.Duration]time.Duration{} // work by instant
	for i := range slices {
		r.table.Owners[i] = (i/simMembers + i) % simMembers // rows of one slice each
	}
	for i := range slices {
		if r.table.Owners[i] != 0 {
			continue
		}
		for k := range simEach {
			at := time.Duration(i)*simSlice + time.Duration(k)*9*time.Millisecond + time.Millisecond
			done[at] += w.request
			at += w.delay
			if w.flush > 0 {
				at = at.Truncate(w.flush) + w.flush
			}
			done[at] += w.deferred
			if at >= warmup && at < warmup+measure && r.owner(int(at/simSlice)) != 0 {
				deferred += w.deferred
			}
		}
	}
	began := time.Now()
	look := func(at time.Duration) meter.Look {
		cpu := time.Duration(w.idle*float64(at+time.Hour)) + time.Duration(w.starting*float64(min(at, warmup/10)+time.Hour))
		for when, ns := range done {
			if when < at {
				cpu += ns
			}
		}
		return meter.Look{Tasks: map[string]result.Reading{"app": {At: began.Add(at), CPU: int64(cpu)}}}
	}
	m = &sliceMember{tasks: []platform.Task{{Task: mesh.Task{ID: "app", Plane: metric.App}}}, shown: shown{at: time.Hour, cpu: map[metric.Plane]int64{}}} // no samples
	m.idleBefore = usesBetween(look(-r.window-time.Millisecond), look(-time.Millisecond))
	r.members = []*sliceMember{m}
	n := 0
	for edge := r.first; edge <= slices; edge++ {
		r.addReading(0, look(r.table.Edge(edge)), n, r.table.Edge(edge))
		n++
	}
	for _, due := range r.afterwards() {
		at := due.Sub(r.start)
		idle := r.addReading(0, look(at), n, at)
		n++
		if idle {
			break
		}
	}
	return m, deferred
}

// costOf divides the CPU of the simulated task, and returns its parts per request.
func costOf(m *sliceMember) (cost, deferred, idle, requests float64, s *idleSeen) {
	task := result.TaskUsage{Task: m.tasks[0].Task, Start: m.begin.Tasks["app"], End: m.last.Tasks["app"]}
	chosen := m.chosenIdle()
	m.divide(&task, chosen)
	for _, row := range m.rows {
		if row.Own {
			requests += simEach
		}
	}
	inside, outside := m.durations()
	cost = float64(task.End.CPU-task.Start.CPU) / requests / 1e3
	deferred = float64(*task.DeferredCPU) / requests / 1e3
	idle = float64(*task.IdleCPU) / float64(outside) * float64(inside) / requests / 1e3
	return cost, deferred, idle, requests, m.idleSeen(chosen, 3*time.Second)
}

// The cost is all work for the requests, whenever it is done, and the idle CPU of the own slices. Slices of 0.1 s have
// 10 requests, so 0.01 idle cores use 100 µs a request.
func TestCostIsOfAllWork(t *testing.T) {
	const us = time.Microsecond
	for name, c := range map[string]struct {
		work
		want float64 // µs a request
	}{
		"at once":          {work{request: 300 * us}, 300},
		"steady":           {work{request: 300 * us, idle: 0.01}, 400},
		"50 ms later":      {work{request: 300 * us, deferred: 200 * us, delay: 50 * time.Millisecond, idle: 0.01}, 600},
		"300 ms later":     {work{request: 300 * us, deferred: 200 * us, delay: 300 * time.Millisecond, idle: 0.01}, 600},
		"1 s later":        {work{request: 300 * us, deferred: 200 * us, delay: time.Second}, 500},
		"flushed each 1 s": {work{request: 300 * us, deferred: 200 * us, flush: time.Second, idle: 0.01}, 600},
		"starting":         {work{request: 300 * us, idle: 0.01, starting: 0.02}, 400},
		"all deferred":     {work{deferred: 200 * us, delay: time.Second}, 200},
	} {
		t.Run(name, func(t *testing.T) {
			m, want := simulate(c.work, 3*time.Second, 36*time.Second)
			cost, deferred, idle, requests, seen := costOf(m)
			if cost < c.want*0.99 || cost > c.want*1.01 {
				t.Errorf("%.1f µs a request, want %.1f", cost, c.want)
			}
			if want := float64(want) / 1e3 / requests; deferred < want-1 || deferred > want+1 {
				t.Errorf("%.1f µs of it deferred, want %.1f", deferred, want)
			}
			if want := c.idle * 1e4; idle < want*0.99 || idle > want*1.01 {
				t.Errorf("%.1f µs of it idle, want %.1f", idle, want)
			}
			if text := idleDiffers(seen0(seen)) + workDeferred(seen0(seen)); text != "" {
				t.Error(text)
			}
		})
	}
}

func seen0(i *idleSeen) seen { return seen{idle: i} }

// What the block does not show is bounded.
func TestDeferredBeyondTheBlock(t *testing.T) {
	const us = time.Microsecond
	m, _ := simulate(work{request: 300 * us, deferred: 200 * us, delay: 1500 * time.Millisecond}, 300*time.Millisecond, 3600*time.Millisecond)
	chosen := m.chosenIdle()
	s := m.idleSeen(chosen, 300*time.Millisecond)
	// The deferred work of 1.2 s of requests, of 3.6 s, is missing: 67 µs beside the 433 µs that were measured. The bound
	// is a little above that, since the end of the work is noticed later.
	if got := s.missing(); got < 0.154 || got > 0.154*1.1 || workDeferred(seen0(s)) == "" {
		t.Errorf("%.3f of the cost is missing, want 0.154 to 0.17: %q", got, workDeferred(seen0(s)))
	}
	m, _ = simulate(work{request: 300 * us, deferred: 200 * us, delay: 4 * time.Second}, 6*time.Second, 36*time.Second)
	if cost, _, _, _, seen := costOf(m); cost < 495 || cost > 505 || idleDiffers(seen0(seen)) == "" {
		t.Errorf("work deferred for longer than the watch: %.1f µs, %q", cost, idleDiffers(seen0(seen)))
	}
}
