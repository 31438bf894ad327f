package runner

import (
	"cmp"
	"slices"
	"strings"
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
	clock    time.Duration // of the task when the load begins: its flushes are at multiples of flush since its start
}

type workDone []struct{ at, sum time.Duration }

func (l *workDone) add(at, work time.Duration) {
	*l = append(*l, struct{ at, sum time.Duration }{at, work})
}

// sort orders the work by time, and makes sums cumulative.
func (l workDone) sort() {
	slices.SortFunc(l, func(a, b struct{ at, sum time.Duration }) int { return cmp.Compare(a.at, b.at) })
	for i := range l[1:] {
		l[i+1].sum += l[i].sum
	}
}

func (l workDone) before(at time.Duration) time.Duration {
	n, _ := slices.BinarySearchFunc(l, at, func(one struct{ at, sum time.Duration }, at time.Duration) int {
		if one.at < at {
			return -1
		}
		return 1
	})
	if n == 0 {
		return 0
	}
	return l[n-1].sum
}

// simSwitches is the number of context switches of a request, simIdleSwitches of an idle second.
const simSwitches, simIdleSwitches = 2, 50

// Schedule of the simulation: one of three members, 10 requests in each of its slices.
const (
	simSlice   = 100 * time.Millisecond
	simMembers = 3
	simEach    = 10
)

// simulate returns the member after a block of a warm-up and a measure phase, and the deferred work in the slices
// of others.
func simulate(w work, warmup, measure time.Duration) (m *sliceMember, deferred time.Duration) {
	count := int((warmup + measure) / simSlice)
	r := &sliceReader{first: int(warmup / simSlice), window: idleWindow(measure), deferral: 2 * time.Second, table: load.Slices{Length: simSlice, Owners: make(load.Owners, count)}}
	var done workDone // work by instant
	var sends []time.Duration
	for i := range count {
		r.table.Owners[i] = (i/simMembers + i) % simMembers // rows of one slice each
	}
	for i := range count {
		if r.table.Owners[i] != 0 {
			continue
		}
		for k := range simEach {
			at := time.Duration(i)*simSlice + time.Duration(k)*9*time.Millisecond + time.Millisecond
			sends = append(sends, at)
			done.add(at, w.request)
			at += w.delay
			if w.flush > 0 {
				at = (at + w.clock).Truncate(w.flush) + w.flush - w.clock
			}
			done.add(at, w.deferred)
			if at >= warmup && at < warmup+measure && r.owner(int(at/simSlice)) != 0 {
				deferred += w.deferred
			}
		}
	}
	done.sort()
	began := time.Now()
	look := func(at time.Duration) meter.Look {
		cpu := time.Duration(w.idle*float64(at+time.Hour)) + time.Duration(w.starting*float64(min(at, warmup/10)+time.Hour))
		cpu += done.before(at)
		switches := simIdleSwitches * (at + time.Hour).Seconds()
		sent, _ := slices.BinarySearch(sends, at)
		switches += float64(simSwitches * sent)
		return meter.Look{Tasks: map[string]result.Reading{"app": {At: began.Add(at), CPU: int64(cpu), Voluntary: int64(switches)}}}
	}
	m = &sliceMember{tasks: []platform.Task{{Task: mesh.Task{ID: "app", Plane: metric.App}}}, shown: shown{at: time.Hour, cpu: map[metric.Plane]int64{}}, switching: map[string]time.Duration{}} // no samples
	m.window = r.window
	for part := range time.Duration(result.QuietParts) {
		at := part * r.window / result.QuietParts
		m.quiet.Before = append(m.quiet.Before, quietRow(look(at-r.window-time.Millisecond), look(at+r.window/result.QuietParts-r.window-time.Millisecond), at))
	}
	r.members = []*sliceMember{m}
	n := 0
	for edge := r.first; edge <= count; edge++ {
		r.addReading(0, look(r.table.Edge(edge)), n, r.table.Edge(edge))
		n++
	}
	for _, due := range r.afterwards(maxPeriod) {
		at := due.Sub(r.start)
		idle := r.addReading(0, look(at), n, at)
		n++
		if idle || !m.tail.long && at > r.table.End()+lastRead+r.deferral+r.window {
			break
		}
	}
	after := look(m.tail.at + 100*time.Millisecond)
	m.switching["app"] = after.Tasks["app"].At.Sub(m.begin.Tasks["app"].At)
	last := m.last.Tasks["app"]
	last.Voluntary = after.Tasks["app"].Voluntary
	m.last.Tasks["app"] = last
	return m, deferred
}

// costOf divides the CPU of the simulated task, and returns its parts per request.
func costOf(m *sliceMember) (cost, deferred, idle, requests float64, s *workSeen) {
	task := result.TaskUsage{Task: m.tasks[0].Task, Start: m.begin.Tasks["app"], End: m.last.Tasks["app"]}
	chosen := m.idle(m.window)
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
	return cost, deferred, idle, requests, m.workSeen(chosen, 3*time.Second)
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
			task := result.TaskUsage{Task: m.tasks[0].Task, Start: m.begin.Tasks["app"], End: m.last.Tasks["app"]}
			m.divide(&task, m.idle(m.window))
			// As alone: the switches of a request, and the idle switches of its 10 ms.
			if got := float64(task.End.Voluntary-task.Start.Voluntary) / requests; got < 2.48 || got > 2.52 {
				t.Errorf("%.3f context switches a request, want 2.5", got)
			}
			all := seen0(seen)
			all.bursts = m.bursts(seen.cost)
			if text := workDeferred(all) + fewBursts(all); text != "" {
				t.Error(text)
			}
		})
	}
}

func seen0(i *workSeen) seen { return seen{work: i} }

// What the block does not show is bounded.
func TestDeferredBeyondTheBlock(t *testing.T) {
	const us = time.Microsecond
	m, _ := simulate(work{request: 300 * us, deferred: 200 * us, delay: 1500 * time.Millisecond}, 300*time.Millisecond, 3600*time.Millisecond)
	s := m.workSeen(m.idle(m.window), 300*time.Millisecond)
	// The deferred work of 1.2 s of requests, of 3.6 s, is missing: 67 µs beside the 433 µs that were measured. The bound
	// is a little above that, since the end of the work is noticed later.
	if got := s.missing(); got < 0.152 || got > 0.154*1.1 || workDeferred(seen0(s)) == "" {
		t.Errorf("%.3f of the cost is missing, want 0.152 to 0.17: %q", got, workDeferred(seen0(s)))
	}
	m, _ = simulate(work{request: 300 * us, deferred: 200 * us, delay: 4 * time.Second}, 6*time.Second, 36*time.Second)
	if cost, _, _, _, _ := costOf(m); cost < 495 || cost > 505 {
		t.Errorf("work deferred for longer than the watch: %.1f µs", cost)
	}
}

// A flush every five seconds is a burst, of which a block of 36 s has seven or eight. Work that is deferred for a time, or
// flushed often, is none.
func TestBursts(t *testing.T) {
	const us = time.Microsecond
	even := func(n int, ns int64) (all []use) {
		for range n {
			all = append(all, use{ns: ns, time: time.Second})
		}
		return all
	}
	with := func(all []use, at int, ns int64) []use {
		all[at].ns += ns
		return all
	}
	sum := func(all []use) (cost int64) {
		for _, u := range all {
			cost += u.ns
		}
		return cost
	}
	alone := func(all []use) *burstsSeen { return burstsIn(all, sum(all), time.Duration(len(all))*time.Second) }
	sliced := func(measure time.Duration, w work) *burstsSeen {
		m, _ := simulate(w, 6*time.Second, measure)
		_, _, _, _, seen := costOf(m)
		return m.bursts(seen.cost)
	}
	for name, c := range map[string]struct {
		bursts *burstsSeen
		want   string
	}{
		"interleaved, every 5 s":   {sliced(36*time.Second, work{request: 300 * us, deferred: 200 * us, flush: 5 * time.Second}), "of CPU in 36s: one more or fewer changes the cost by 6."},
		"interleaved, every 1 s":   {sliced(36*time.Second, work{request: 300 * us, deferred: 200 * us, flush: time.Second}), ""},
		"interleaved, 1 s later":   {sliced(36*time.Second, work{request: 300 * us, deferred: 200 * us, delay: time.Second}), ""},
		"interleaved, at once":     {sliced(36*time.Second, work{request: 300 * us, idle: 0.01}), ""},
		"interleaved, short":       {sliced(6*time.Second, work{request: 300 * us, deferred: 500 * us, flush: 2500 * time.Millisecond}), "of CPU in 6s"},
		"interleaved, 0.3 s later": {sliced(6*time.Second, work{request: 300 * us, deferred: 500 * us, delay: 300 * time.Millisecond}), ""},
		"alone, two":               {alone(with(with(even(10, 1e8), 2, 3e8), 7, 3e8)), "2 bursts of up to 300ms of CPU in 10s: one more or fewer changes the cost by 18.8 % (limit 3 %)"},
		"alone, over two seconds":  {alone(with(with(even(10, 1e8), 2, 2e8), 3, 1e8)), "1 burst of up to 300ms"},
		"alone, none":              {alone(even(10, 1e8)), ""},
		"alone, small":             {alone(with(even(60, 1e8), 9, 1e8)), ""},
		"alone, too short":         {alone(with(even(4, 1e8), 1, 9e8)), ""},
	} {
		if text := fewBursts(seen{bursts: c.bursts}); (text == "") != (c.want == "") || !strings.Contains(text, c.want) {
			t.Errorf("%s: %q, want %q", name, text, c.want)
		}
	}
}
