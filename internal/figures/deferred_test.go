package figures

import (
	"cmp"
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/tare-mesh/tare/internal/base/check"
	"github.com/tare-mesh/tare/internal/experiment/mesh"
	"github.com/tare-mesh/tare/internal/experiment/plan"
	"github.com/tare-mesh/tare/internal/metric"
	"github.com/tare-mesh/tare/internal/result"
	"github.com/tare-mesh/tare/internal/stats"
	"github.com/tare-mesh/tare/test/statstest"
)

// planted is a program with known CPU: of its requests, at once and later, and without them.
type planted struct {
	name     string
	request  float64 // s of CPU, at once
	deferred float64 // s of CPU a request, later
	delay    float64 // s after the request
	flush    float64 // s: deferred work waits for the next multiple
	steady   float64 // cores
	burst    float64 // s of one core
	every    float64 // s from burst to burst
	idle     float64 // cores, while idle only
	after    float64 // s without a request, after which it is idle
	carried  float64 // s of idle work that goes on into the next own slice
	poll     float64 // s without a request, after which and as often again a burst follows
	beside   float64 // factor of steady work and bursts while others have the load
	starting float64 // cores more, before the load
	blocks   int     // 0: 20
}

// want is the cost of a request, s, as of the program alone at a rate.
func (p planted) want(rate float64) float64 {
	loaded := p.steady * p.beside
	if p.every > 0 {
		loaded += p.burst / p.every
	}
	return p.request + p.deferred + loaded/rate
}

const (
	simMembers = 3
	simRate    = 200.0 // requests/s in own slices
	simSlice   = 0.1
	simGuard   = 0.01
	simSent    = 18   // requests of a slice
	simWarmup  = 5    // rows
	simRows    = 12   // rows
	simTail    = 2.0  // s of readings after the load at most
	simWindow  = 0.15 // s without requests, after
	simStep    = 1e-3
	simProbes  = 20 // requests of the verification, one after another
)

// block simulates one interleaved trial of the program in a block.
func (p planted) block(r *rand.Rand, n int) (result.Record, []result.Slice) {
	count := (simWarmup + simRows) * simMembers
	owners := plan.Owners(r.Uint64(), simMembers, simWarmup, simRows)
	length := float64(count) * simSlice
	before := simWindow
	if (p.poll > 0 || p.delay > simSlice || p.flush > 0) && n > 1 {
		before += 1 // as of a run that saw unclear CPU in its first block
	}
	if p.every >= 1 { // as of a run that has learned the period
		before += min(p.every, 5)
	}
	steps := int((before + length + 0.1 + simTail) / simStep)
	used := make([]float64, steps+1) // by step, from the first reading before the load
	at := func(t float64) int { return min(steps, max(0, int((t+before)/simStep+1e-6))) }
	load := func(t float64) int { // owner of the moment, -1 for none
		if i := int(t / simSlice); t >= 0 && i < count {
			return owners[i]
		}
		return -1
	}
	speed := 1 + 0.03*r.NormFloat64() // of the deployment
	clock := r.Float64() * 1000
	for i, owner := range owners {
		if owner != 0 {
			continue
		}
		for k := range simSent {
			t := float64(i)*simSlice + float64(k)/simRate
			used[at(t)] += p.request * speed * (1 + 0.1*r.NormFloat64())
			t += p.delay
			if p.flush > 0 {
				t += p.flush - mod(t+clock, p.flush)
			}
			if p.deferred > 0 && t < length+0.1+simTail {
				used[at(t)] += p.deferred * speed
			}
		}
	}
	probed := -before - 0.1 - 0.1*r.Float64() // the end of the verification
	for k := range simProbes {
		t := probed - float64(k)*simStep/2 + p.delay
		if p.flush > 0 {
			t += p.flush - mod(t+clock, p.flush)
		}
		if t >= -before && t < length {
			used[at(t)] += p.deferred * speed
		}
	}
	last := -1e9
	if p.poll > 0 {
		last = -before // the readings begin directly after a request
	}
	for s := range used {
		t := float64(s)*simStep - before
		owner, factor := load(t), 1.0
		if owner >= 0 {
			factor = p.beside
		}
		used[s] += p.steady * simStep * factor * (1 + 0.3*r.NormFloat64())
		if wait := t - last; p.poll > 0 && wait >= p.poll && mod(wait, p.poll) < p.burst {
			used[s] += simStep
		}
		if p.every > 0 && mod(t+clock, p.every) < p.burst {
			used[s] += simStep
		}
		if owner == 0 {
			if t-last > p.after {
				used[s] += p.carried
			}
			last = t
		} else if p.idle > 0 && t-last > p.after {
			used[s] += p.idle * simStep
		}
		if t < 0 {
			used[s] += p.starting * simStep
		}
	}
	sum := func(from, to float64) int64 {
		total := 0.0
		for _, u := range used[at(from):at(to)] {
			total += u
		}
		return int64(total * 1e9)
	}
	row := func(from, to, zero float64) result.QuietRow {
		return result.QuietRow{AtSeconds: from - zero, Tasks: map[string]result.QuietUse{"app": {CPU: sum(from, to), NS: int64((to - from) * 1e9)}}}
	}
	quiet := &result.Quiet{After: []result.QuietRow{row(length, length+0.1, length)}}
	for i := range 6 {
		from := float64(i) * before / 6
		quiet.Before = append(quiet.Before, row(from-before, from+before/6-before, -before))
	}
	limit := float64(sum(-before, 0))/before + 0.005*float64(sum(0, length))/length
	for from, busy := length+0.1, true; busy && from < length+0.1+simTail-simWindow; from += simWindow / 6 {
		quiet.After = append(quiet.After, row(from, from+simWindow/6, length))
		if end := from + simWindow/6; end > length+0.1+0.99*simWindow {
			busy = float64(sum(end-simWindow, end))/simWindow > limit
		}
	}
	var rows []result.Slice
	var own, others int64
	for i := simWarmup * simMembers; i < count; i++ {
		s := result.Slice{Own: owners[i] == 0, Begin: seconds(float64(i) * simSlice), End: seconds(float64(i+1) * simSlice)}
		s.Slice = i
		cpu := sum(float64(i)*simSlice, float64(i+1)*simSlice)
		s.CPU = map[metric.Plane]int64{metric.App: cpu}
		if s.Own {
			own += cpu
			s.Answered = simSent
		} else {
			others += cpu
		}
		rows = append(rows, s)
	}
	zero := int64(0)
	began := time.Unix(1e9, 0)
	return result.Record{
		ID: fmt.Sprintf("t%d", n), Block: n, Treatment: "t", Valid: true, Quiet: quiet, Answers: []check.Answer{{Probes: simProbes}},
		Load: &result.Load{Completed: simSent * simRows, Slices: &result.OwnSlices{Count: simRows, LengthSeconds: simSlice, GuardSeconds: simGuard}},
		Tasks: []result.TaskUsage{{Task: mesh.Task{ID: "app", Plane: metric.App}, IdleCPU: &zero, DeferredCPU: &others,
			Start: result.Reading{At: began, CPU: 1e9}, End: result.Reading{At: began.Add(seconds(simRows * simMembers * simSlice)), CPU: 1e9 + own + others}}},
	}, rows
}

func seconds(s float64) time.Duration { return time.Duration(s * 1e9) }

func mod(x, of float64) float64 { return x - of*float64(int64(x/of)) }

// run is one run of blocks: the mean cost of a request with its interval and limits.
func (p planted) run(r *rand.Rand, blocks int) (low, mean, high float64, withheld bool) {
	records, rows := make([]result.Record, blocks), make([][]result.Slice, blocks)
	for i := range records {
		records[i], rows[i] = p.block(r, i+1)
	}
	divided := divide(records, rows)
	var costs []float64
	var limit Limit
	for i := range records {
		cost := float64(records[i].Tasks[0].End.CPU-records[i].Tasks[0].Start.CPU) / 1e9 / float64(records[i].Load.Completed)
		costs = append(costs, cost)
		name := metric.Of(metric.CPUPerRequest, "app")
		l := divided[i].limitsOf(map[string]float64{name: cost})[name]
		limit.Below, limit.Above = limit.Below+l.Below/float64(blocks), limit.Above+l.Above/float64(blocks)
	}
	e := stats.MeanInterval(costs, 0.95)
	return *e.Low - limit.Below, e.Estimate, *e.High + limit.Above, divided[0].withheld != nil
}

// Each program is measured in 20 blocks, or as many as it has, again and again. The interval with its limits holds the cost of the program alone.
func TestPlantedWork(t *testing.T) {
	const us, ms = 1e-6, 1e-3
	plain := planted{request: 300 * us, beside: 1}
	with := func(name string, change func(*planted)) planted {
		p := plain
		p.name = name
		change(&p)
		return p
	}
	for _, p := range []planted{
		with("at once", func(*planted) {}),
		with("steady 1 %", func(p *planted) { p.steady = 0.01 }),
		with("steady 5 %", func(p *planted) { p.steady = 0.05 }),
		with("steady 20 %", func(p *planted) { p.steady = 0.2 }),
		with("steady 5 %, 15 % more beside others", func(p *planted) { p.steady, p.beside = 0.05, 1.15 }),
		with("steady 20 %, 40 % more beside others", func(p *planted) { p.steady, p.beside = 0.2, 1.4 }),
		with("1 ms each 0.1 s", func(p *planted) { p.burst, p.every = 1*ms, 0.1 }),
		with("50 ms each 1 s", func(p *planted) { p.burst, p.every = 50*ms, 1 }),
		with("50 ms each 2.3 s", func(p *planted) { p.burst, p.every = 50*ms, 2.3 }),
		with("50 ms each 5 s", func(p *planted) { p.burst, p.every = 50*ms, 5 }),
		with("50 ms each 11 s", func(p *planted) { p.burst, p.every = 50*ms, 11 }),
		with("1000 ms each 11 s", func(p *planted) { p.burst, p.every = 1, 11 }),
		with("1000 ms each 5 s", func(p *planted) { p.burst, p.every = 1, 5 }),
		with("1000 ms each 30 s", func(p *planted) { p.burst, p.every = 1, 30 }),
		with("1000 ms each 11 s, in 10 blocks", func(p *planted) { p.burst, p.every, p.blocks = 1, 11, 10 }),
		with("720 ms each 8.9 s, in 10 blocks", func(p *planted) { p.burst, p.every, p.blocks = 0.72, 8.9, 10 }),
		with("1 ms each 2.3 s", func(p *planted) { p.burst, p.every = 1*ms, 2.3 }),
		with("idle only after 230 ms", func(p *planted) { p.idle, p.after = 0.25, 0.23 }),
		with("idle only after 150 ms, in steps", func(p *planted) { p.idle, p.after, p.carried = 0.3, 0.15, 0.7*ms }),
		with("idle only after 400 ms", func(p *planted) { p.idle, p.after = 0.25, 0.4 }),
		with("idle only after 2 s", func(p *planted) { p.idle, p.after = 0.25, 2 }),
		with("20 ms each 0.5 s without requests", func(p *planted) { p.burst, p.poll = 20*ms, 0.5 }),
		with("20 ms each 0.25 s without requests", func(p *planted) { p.burst, p.poll = 20*ms, 0.25 }),
		with("5 ms later", func(p *planted) { p.deferred, p.delay = 200*us, 5*ms }),
		with("idle only after 30 ms", func(p *planted) { p.idle, p.after = 0.25, 0.03 }),
		with("50 ms later", func(p *planted) { p.deferred, p.delay = 200*us, 50*ms }),
		with("300 ms later", func(p *planted) { p.deferred, p.delay = 200*us, 300*ms }),
		with("150 ms later", func(p *planted) { p.deferred, p.delay = 200*us, 150*ms }),
		with("220 ms later", func(p *planted) { p.deferred, p.delay = 200*us, 220*ms }),
		with("260 ms later", func(p *planted) { p.deferred, p.delay = 200*us, 260*ms }),
		with("220 ms later, steady 5 %", func(p *planted) { p.deferred, p.delay, p.steady = 200*us, 220*ms, 0.05 }),
		with("1 s later", func(p *planted) { p.deferred, p.delay = 200*us, 1 }),
		with("50 ms later, steady 5 %", func(p *planted) { p.deferred, p.delay, p.steady = 200*us, 50*ms, 0.05 }),
		with("300 ms later, steady 5 %, 15 % more beside others", func(p *planted) { p.deferred, p.delay, p.steady, p.beside = 200*us, 300*ms, 0.05, 1.15 }),
		with("flushed each 1 s", func(p *planted) { p.deferred, p.flush = 200*us, 1 }),
		with("starting", func(p *planted) { p.steady, p.starting = 0.02, 0.1 }),
	} {
		t.Run(p.name, func(t *testing.T) {
			t.Parallel()
			r := rand.New(rand.NewPCG(11, uint64(len(p.name))))
			rounds, covered, means, width, withheld := statstest.Rounds(t, 40, 400), 0, 0.0, 0.0, 0
			want := p.want(simRate)
			for range rounds {
				low, mean, high, none := p.run(r, cmp.Or(p.blocks, 20))
				if none {
					withheld++
					continue
				}
				if low <= want && want <= high {
					covered++
				}
				means, width = means+mean, width+(high-low)/2
			}
			n := float64(rounds - withheld)
			t.Logf("%s: mean %.1f µs for %.1f, ±%.1f, held in %d of %d, withheld in %d", p.name, means/n/us, want/us, width/n/us, covered, rounds-withheld, withheld)
			if least := 0.93 - 3*math.Sqrt(0.93*0.07/float64(rounds)); float64(covered+withheld) < least*float64(rounds) {
				t.Errorf("held in %d of %d", covered, rounds)
			}
		})
	}
}

// One or two blocks have no interval, and their cost has the work that follows own slices all the same: without it the first program
// would weigh 18 % too little. Steady work is no deferred work there either.
func TestFewBlocks(t *testing.T) {
	const us, ms = 1e-6, 1e-3
	for _, p := range []planted{
		{name: "50 ms later", request: 300 * us, deferred: 200 * us, delay: 50 * ms, beside: 1},
		{name: "steady", request: 300 * us, steady: 0.05, beside: 1.15},
		{name: "at once", request: 300 * us, beside: 1},
	} {
		for _, blocks := range []int{1, 2} {
			r, mean := rand.New(rand.NewPCG(5, uint64(blocks))), 0.0
			const rounds = 50
			for range rounds {
				records, rows := make([]result.Record, blocks), make([][]result.Slice, blocks)
				for i := range records {
					records[i], rows[i] = p.block(r, i+1)
				}
				divide(records, rows)
				for _, record := range records {
					u := record.Tasks[0]
					mean += float64(u.End.CPU-u.Start.CPU) / 1e9 / float64(record.Load.Completed) / float64(blocks*rounds)
				}
			}
			if off := mean/p.want(simRate) - 1; math.Abs(off) > 0.02 {
				t.Errorf("%s, %d blocks: %.1f µs for %.1f", p.name, blocks, mean/us, p.want(simRate)/us)
			}
		}
	}
}
