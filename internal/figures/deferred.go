package figures

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"time"

	"github.com/tare-mesh/tare/internal/base/lists"
	"github.com/tare-mesh/tare/internal/metric"
	"github.com/tare-mesh/tare/internal/result"
	"github.com/tare-mesh/tare/internal/stats"
)

// The cost of an interleaved trial is the CPU of its own slices, in which it has the load, and the CPU that its requests
// deferred to the slices of others. Own slices alone are unbiased for all work that goes on without requests: steady work,
// bursts of a timer, and work of idle programs, which own slices do not have.
//
// Work is deferred if one of three signs exceeds its own error over the trials of a treatment:
//
//   - its CPU in slices of others is beyond the idle rate, by more than the load of others can change idle work;
//   - slices directly after own ones have more of it than later ones;
//   - directly after the load it uses more than before the load.
//
// With the first or the third, the CPU of slices of others beyond the idle rate is part of the cost, and the influence of
// others' load on idle work is a limit below it. The idle rate is then that before the load, without the part in which the probes
// that verify a deployment left deferred work. What they can have left in the rest is a limit above the cost. With the second alone, the excess of the slices directly after own ones
// is. Otherwise nothing is. The deferred work that the other signs do not exclude is a limit above the cost.
//
// Own slices are longer than the time for which requests are due, by their guards. What goes on without requests goes on there too,
// and a request of the rate that was asked has no part of it: it is taken off at the rate found in the slices of others.
const (
	// interference is the share by which the load of other treatments may raise the CPU of idle work: caches and the
	// threads of a core are shared.
	interference = 0.5
	// signConfidence is the confidence of the three signs.
	signConfidence = 0.95
	// fewEvents is the number of bursts expected in the time without requests, below which their absence there shows nothing.
	fewEvents = 4
)

// Limit is the known limit of a figure: its true value is beyond its interval by at most that much.
type Limit struct {
	Below float64 `json:"below,omitempty"`
	Above float64 `json:"above,omitempty"`
}

// signs of deferred work, of a plane in one trial, in seconds of CPU.
type signs struct {
	outside float64 // time in the slices of others, s
	idle    float64 // CPU there at the idle rate
	before  float64 // CPU there at the rate before the load
	all     float64 // CPU there
	near    float64 // CPU of slices directly after own ones, beyond the rate of later slices
	after   float64 // CPU beyond the rate before the load, directly after it, for as long as the slices of others
	end     float64 // as after, at the end of the readings
	hasNear bool
	// CPU of own slices directly after slices of others, beyond the rate of own slices directly after own ones.
	carried    float64
	hasCarried bool
	// CPU of slices directly after own ones, and their time.
	nearCPU, nearTime float64
	hasAfter          bool
	squares           float64 // sum of the squared CPU of slices of others
	// Times without requests, s: all of it, and the part directly after the load.
	without, afterwards float64
}

// uses are the CPU of tasks while no request is anywhere, by ID. Nil if it was not read.
type uses map[string]result.QuietUse

// usesIn adds up rows.
func usesIn(rows []result.QuietRow) (sum uses) {
	for _, row := range rows {
		sum = sum.plus(row.Tasks)
	}
	return sum
}

func (all uses) plus(more uses) uses {
	if len(more) == 0 {
		return all
	}
	sum := uses{}
	maps.Copy(sum, all)
	for id, u := range more {
		sum[id] = sum[id].Plus(u)
	}
	return sum
}

// or is other if there are no uses.
func (all uses) or(other uses) uses {
	if all == nil {
		return other
	}
	return all
}

func (all uses) cores(id string) float64 {
	if u := all[id]; u.NS > 0 {
		return float64(u.CPU) / float64(u.NS)
	}
	return 0
}

// seconds is the longest time of a task, s.
func (all uses) seconds() float64 {
	ns := int64(0)
	for _, u := range all {
		ns = max(ns, u.NS)
	}
	return float64(ns) / 1e9
}

// rate is the rate of the tasks of a plane, in cores.
func (all uses) rate(tasks []result.TaskUsage, plane metric.Plane) (sum float64) {
	for _, t := range tasks {
		if t.Plane == plane {
			sum += all.cores(t.ID)
		}
	}
	return sum
}

// longest is the longest time between the two readings of a task.
func longest(row result.QuietRow) (d time.Duration) {
	for _, u := range row.Tasks {
		d = max(d, time.Duration(u.NS))
	}
	return d
}

// directlyAfter are the rows of the window after the last answers. How many rows follow depends on what they show, and would
// bias their mean.
func directlyAfter(rows []result.QuietRow) []result.QuietRow {
	if len(rows) > 1 {
		rows = rows[1:]
	}
	return rows[:min(len(rows), result.QuietParts)]
}

// sliced is an interleaved trial with the readings that divide its CPU.
type sliced struct {
	record *result.Record
	rows   []result.Slice
	before uses                     // before the load
	cuts   []cut                    // of it
	after  uses                     // directly after it
	limits map[metric.Plane]Limit   // s of CPU
	guards map[metric.Plane]float64 // ns of CPU in guards that is not of requests
	atOnce map[metric.Plane]bool    // no work is deferred: the cost is the CPU of own slices
	// withheld is the reason for which the CPU of the trial is not used.
	withheld *Warning
}

// divide decides for each treatment and plane whether work was deferred, and changes the CPU of tasks in records accordingly,
// in memory only. Trials without readings of quiet times remain as they were recorded.
func divide(records []result.Record, rows [][]result.Slice) []sliced {
	all := make([]sliced, len(records))
	byTreatment := map[string][]*sliced{}
	for i := range records {
		r := &records[i]
		all[i] = sliced{record: r, rows: rows[i], limits: map[metric.Plane]Limit{}, guards: map[metric.Plane]float64{}, atOnce: map[metric.Plane]bool{}}
		if r.Error != "" || r.Load == nil || r.Load.Slices == nil || r.Quiet == nil || len(rows[i]) == 0 {
			continue
		}
		all[i].cuts = cutsOf(r.Quiet.Before)
		all[i].before, all[i].after = usesIn(r.Quiet.Before), usesIn(directlyAfter(r.Quiet.After))
		if all[i].before != nil || all[i].after != nil {
			byTreatment[r.Treatment] = append(byTreatment[r.Treatment], &all[i])
		}
	}
	for _, id := range slices.Sorted(maps.Keys(byTreatment)) {
		trials := byTreatment[id]
		for _, plane := range metric.Planes() {
			if dividedPlane(plane) && slices.ContainsFunc(trials, func(t *sliced) bool { return has(t.record.Tasks, plane) }) {
				if late := dividePlane(trials, plane); late > 0 {
					boundLoss(trials, plane, late)
				}
			}
		}
	}
	return all
}

// dividedPlane: the load's own CPU is the CPU of its slices, and tare's is no cost.
func dividedPlane(p metric.Plane) bool {
	return p != metric.Load && p != metric.Harness && p != metric.Node && p != metric.Foreign
}

// dividePlane divides the CPU of one plane of all trials of a treatment. deferred is how much work a trial at most deferred for
// longer than a slice, in s of CPU in the slices of others, 0 for none.
func dividePlane(trials []*sliced, plane metric.Plane) (deferred float64) {
	from := valid(trials)
	probed := probedPart(from, plane)
	for _, t := range trials {
		if t.before = t.cuts[0].part.plus(t.cuts[0].rest); probed >= 0 {
			t.before = t.cuts[probed].rest
		}
	}
	change := signOf(from, func(t *sliced) (float64, bool) {
		return t.after.rate(t.record.Tasks, plane) - t.before.rate(t.record.Tasks, plane), t.before != nil && t.after != nil
	})
	pooled := func(of func(*sliced) uses) work { return pool(trials, from, plane, of) }
	before := pooled(func(t *sliced) uses { return t.before.or(t.after) })
	idle := pooled(func(t *sliced) uses { return t.before.plus(t.after) })
	at := map[*sliced]signs{}
	for _, t := range trials {
		at[t] = t.signs(plane, idle, before)
	}
	expected, afterwards := bursts(from, at)
	started := change.below(0) && afterwards >= fewEvents // the time before the load has what remained of the start
	switch {
	case started:
		idle = pooled(func(t *sliced) uses { return t.after.or(t.before) })
	case change.above(0):
		idle = before
	}
	for _, t := range trials {
		at[t] = t.signs(plane, idle, before)
	}
	sign := func(of func(signs) (float64, bool)) estimate {
		return signOf(from, func(t *sliced) (float64, bool) { return of(at[t]) })
	}
	near := sign(func(s signs) (float64, bool) { return s.near, s.hasNear })
	after := sign(func(s signs) (float64, bool) { return s.after, s.hasAfter })
	more := func(idle func(signs) float64) bool {
		return sign(func(s signs) (float64, bool) { return s.all - (1+interference)*idle(s), true }).above(0)
	}
	beyond := expected >= fewEvents && (more(func(s signs) float64 { return s.idle }) || more(func(s signs) float64 { return s.before }))
	soon := near.shows() && shown(from, at)
	// Work of idle programs goes on after the load, and slices directly after own ones have less of it.
	goesOn := sign(func(s signs) (float64, bool) { return s.end - s.after/2, s.hasAfter }).Estimate > 0
	late := (beyond || after.above(0)) && !(goesOn && near.below(0)) && sign(func(s signs) (float64, bool) { return s.all - s.before, true }).Estimate > 0
	if late && !started { // what follows the load has deferred work
		idle = before
		for _, t := range trials {
			at[t] = t.signs(plane, idle, before)
		}
	}
	// The deferred work that the signs do not exclude, of a mean trial.
	hidden := sign(func(s signs) (float64, bool) { return s.all - min(s.idle, s.before), true }).high()
	switch {
	case !after.known() || expected < fewEvents:
	case soon:
		hidden = min(hidden, after.high())
	case near.known():
		hidden = min(hidden, max(near.high(), after.high()))
	}
	all := sign(func(s signs) (float64, bool) { return s.all, true }).Estimate
	hidden = max(0, min(hidden, all))
	carried := 0.0
	if c := sign(func(s signs) (float64, bool) { return s.carried, s.hasCarried }); c.above(0) {
		carried = c.high()
	}
	few := fewBursts(from, at, plane)
	for _, t := range trials {
		s := at[t]
		if t.withheld == nil {
			t.withheld = few
		}
		switch {
		case late:
			t.limits[plane] = Limit{Below: interference * max(0, s.idle), Above: max(0, min(s.idle, t.ofProbes(s)))}
			t.divide(plane, s, 1, func(id string, _ int64) float64 { return idle[t][id] })
		case soon:
			t.limits[plane] = Limit{Above: hidden}
			t.divide(plane, s, 1, func(_ string, others int64) float64 { return float64(others) / 1e9 * (1 - s.near/s.all) })
		default:
			t.atOnce[plane] = true
			ratio := s.nearRatio()
			inGuards := ratio * s.rate() * t.guardSeconds()
			limit := Limit{Above: hidden + interference/(1+interference)*inGuards}
			if near.below(0) { // work that begins only without requests is hardly in guards, and may go on into the next own slice
				limit, ratio = Limit{Below: inGuards + carried, Above: hidden}, 0
			}
			t.limits[plane] = limit
			t.divide(plane, s, ratio, func(_ string, others int64) float64 { return float64(others) / 1e9 })
		}
	}
	if !late {
		return 0
	}
	return max(0, min(all, sign(func(s signs) (float64, bool) { return s.all - s.before, true }).high()))
}

// cut divides the readings before the load into a part and the rest.
type cut struct {
	part, rest uses
	share      float64
}

// cutsOf cut off the parts into which the deferred work of probes may fall: both halves, and the middle.
func cutsOf(rows []result.QuietRow) (all []cut) {
	n := len(rows)
	for _, p := range [][2]int{{0, n / 2}, {n / 2, n}, {n / 3, n - n/3}} {
		all = append(all, cut{usesIn(rows[p[0]:p[1]]), usesIn(rows[:p[0]]).plus(usesIn(rows[p[1]:])), float64(p[1]-p[0]) / float64(max(1, n))})
	}
	return all
}

// probedPart is the part of the readings before the load that has more CPU than the rest, by more than its error. -1 if there is none.
// Probes verify a deployment shortly before, and defer work as the requests of the load do.
func probedPart(trials []*sliced, plane metric.Plane) int {
	part, most := -1, 0.0
	for i := range cutsOf(nil) {
		excess := signOf(trials, func(t *sliced) (float64, bool) { // as CPU, so that a short time counts for less than a long one
			c := t.cuts[i]
			return (c.part.rate(t.record.Tasks, plane) - c.rest.rate(t.record.Tasks, plane)) * c.share * t.beforehand(), c.part != nil && c.rest != nil
		})
		if excess.above(0) && excess.Estimate > most {
			part, most = i, excess.Estimate
		}
	}
	return part
}

// beforehand is the time of the readings before the load, s.
func (t *sliced) beforehand() (sum float64) {
	return lists.Sum(t.record.Quiet.Before, func(row result.QuietRow) float64 { return longest(row).Seconds() })
}

// ofProbes bounds the work of probes that passes for idle work in the slices of others, s: each deferred as much as a request of the
// load, in slices of others and in own ones alike.
func (t *sliced) ofProbes(s signs) float64 {
	probes := 0
	for _, a := range t.record.Answers {
		probes += a.Probes
	}
	share := float64(probes) / float64(max(1, t.record.Load.Completed)) * s.outside / t.before.seconds()
	if !(share < 1) { // or no readings before the load
		return s.idle
	}
	return share / (1 - share) * (s.all - s.idle) * (s.outside + t.time(true)) / s.outside
}

// work is CPU in the slices of others at a rate, in s, by trial and task.
type work map[*sliced]map[string]float64

func (w work) of(t *sliced, plane metric.Plane) (sum float64) {
	for _, task := range t.record.Tasks {
		if task.Plane == plane {
			sum += w[t][task.ID]
		}
	}
	return sum
}

// pool is the work of a plane at the rate of all trials: a long time without requests counts for more than a short one. What a
// trial used beyond that rate remains its own, with the weight that it has in the rate. So the error of the rate is in the
// variance between trials.
func pool(trials, from []*sliced, plane metric.Plane, of func(*sliced) uses) work {
	w, sums, outside := work{}, uses{}, 0.0
	for _, t := range from {
		sums, outside = sums.plus(of(t)), outside+t.outside()
	}
	for _, t := range trials {
		w[t] = map[string]float64{}
		for _, task := range t.record.Tasks {
			if task.Plane != plane {
				continue
			}
			rate, u := sums.cores(task.ID), of(t)[task.ID]
			w[t][task.ID] = rate * t.outside()
			if all := sums[task.ID].NS; all > 0 && u.NS > 0 {
				w[t][task.ID] += (float64(u.CPU) - rate*float64(u.NS)) / float64(all) * outside
			}
		}
	}
	return w
}

// outside is the time in the slices of others, s.
func (t *sliced) outside() float64 { return t.time(false) }

// time is the time in own slices, or in those of others, s.
func (t *sliced) time(own bool) (sum float64) {
	for _, row := range t.rows {
		if row.Own == own {
			sum += (row.End - row.Begin).Seconds()
		}
	}
	return sum
}

// bursts returns the numbers of bursts that the time without requests, and the part of it directly after the load, would have
// at the rate of the slices of others. The number of bursts there is the number of equal parts with the same sum and sum of squares.
func bursts(trials []*sliced, at map[*sliced]signs) (without, after float64) {
	var sum signs
	for _, t := range trials {
		s := at[t]
		sum.all, sum.squares, sum.outside = sum.all+s.all, sum.squares+s.squares, sum.outside+s.outside
		sum.without, sum.afterwards = sum.without+s.without, sum.afterwards+s.afterwards
	}
	if sum.squares <= 0 || sum.outside <= 0 {
		return 0, 0
	}
	rate := sum.all * sum.all / sum.squares / sum.outside
	return rate * sum.without, rate * sum.afterwards
}

// shown reports whether the share of the slices directly after own ones in the CPU of others' slices is beyond their share of the
// time, by more than the error of as many bursts at random.
func shown(trials []*sliced, at map[*sliced]signs) bool {
	var all, squares, near, nearTime, outside float64
	for _, t := range trials {
		s := at[t]
		all, squares, near = all+s.all, squares+s.squares, near+s.nearCPU
		nearTime, outside = nearTime+s.nearTime, outside+s.outside
	}
	if all <= 0 || outside <= 0 {
		return false
	}
	p := nearTime / outside
	return near/all-p > 2*math.Sqrt(p*(1-p)*squares)/all
}

func valid(trials []*sliced) (all []*sliced) {
	all = lists.Where(trials, func(t *sliced) bool { return t.record.Valid })
	if len(all) == 0 {
		return trials
	}
	return all
}

// estimate is the mean of a sign over trials.
type estimate struct{ stats.Result }

func signOf(trials []*sliced, of func(*sliced) (float64, bool)) estimate {
	var values []float64
	for _, t := range trials {
		if v, ok := of(t); ok {
			values = append(values, v)
		}
	}
	return estimate{stats.MeanInterval(values, signConfidence)}
}

func (e estimate) known() bool { return e.N > 0 }

// bounds are the interval, without an end if there are too few trials for one.
func (e estimate) bounds() (low, high float64) {
	switch {
	case e.Known():
		return *e.Low, *e.High
	case e.Why == stats.NoSpread:
		return e.Estimate, e.Estimate
	}
	return math.Inf(-1), math.Inf(1)
}

// above and below: the mean is beyond v by more than its error.
func (e estimate) above(v float64) bool {
	low, _ := e.bounds()
	return low > v
}

// shows: the mean is above zero by more than its error. Of too few trials for an error, its value decides: a figure without an
// interval lacks no work that is in sight.
func (e estimate) shows() bool {
	if 0 < e.N && e.N < stats.MinN {
		return e.Estimate > 0
	}
	return e.above(0)
}

func (e estimate) below(v float64) bool {
	_, high := e.bounds()
	return high < v
}

func (e estimate) high() float64 {
	_, high := e.bounds()
	return high
}

func (t *sliced) signs(plane metric.Plane, idle, before work) (s signs) {
	var laterTime, laterCPU, sum, firstCPU, firstTime, nextCPU, nextTime float64
	for i, row := range t.rows {
		cpu, time := float64(row.CPU[plane])/1e9, (row.End - row.Begin).Seconds()
		if row.Own {
			switch {
			case i == 0:
			case t.rows[i-1].Own:
				nextCPU, nextTime = nextCPU+cpu, nextTime+time
			default:
				firstCPU, firstTime = firstCPU+cpu, firstTime+time
			}
			continue
		}
		sum, s.outside = sum+cpu, s.outside+time
		s.squares += cpu * cpu
		switch {
		case i == 0:
		case t.rows[i-1].Own:
			s.nearCPU, s.nearTime = s.nearCPU+cpu, s.nearTime+time
		default:
			laterCPU, laterTime = laterCPU+cpu, laterTime+time
		}
	}
	s.all = sum
	s.idle, s.before = idle.of(t, plane), before.of(t, plane)
	for _, row := range directlyAfter(t.record.Quiet.After) {
		s.afterwards += longest(row).Seconds()
	}
	s.without = s.afterwards + t.beforehand()
	if s.hasNear = s.nearTime > 0 && laterTime > 0; s.hasNear {
		s.near = s.nearCPU - laterCPU/laterTime*s.nearTime
	}
	if s.hasCarried = firstTime > 0 && nextTime > 0; s.hasCarried {
		s.carried = firstCPU - nextCPU/nextTime*firstTime
	}
	if s.hasAfter = t.before != nil && t.after != nil; s.hasAfter {
		last := t.record.Quiet.After
		end := usesIn(last[max(0, len(last)-result.QuietParts):])
		s.end = end.rate(t.record.Tasks, plane)*s.outside - s.before
		s.after = t.after.rate(t.record.Tasks, plane)*s.outside - s.before
	}
	return s
}

// nearRatio is the rate of slices directly after own ones over the rate of all slices of others. Work that begins only after a time
// without requests is neither there nor in guards.
func (s signs) nearRatio() float64 {
	if s.nearTime <= 0 || s.all <= 0 {
		return 1
	}
	return s.nearCPU / s.nearTime / s.rate()
}

// rate is that of the slices of others, in cores.
func (s signs) rate() float64 {
	if s.outside <= 0 {
		return 0
	}
	return s.all / s.outside
}

// guardSeconds is the time of guards in own slices.
func (t *sliced) guardSeconds() (sum float64) {
	for _, row := range t.rows {
		if row.Own {
			sum += t.record.Load.Slices.GuardSeconds
		}
	}
	return sum
}

// divide divides the CPU of the tasks of a plane in the slices of others, and takes off what guards have of it at a ratio of its rate.
// idle is the part of a task in s that is not of its requests, from the ID of the task and its CPU there in ns.
func (t *sliced) divide(plane metric.Plane, s signs, ratio float64, idle func(id string, others int64) float64) {
	t.guards[plane] = 0
	for i := range t.record.Tasks {
		u := &t.record.Tasks[i]
		if u.Plane != plane || u.IdleCPU == nil || u.DeferredCPU == nil {
			continue
		}
		others := *u.IdleCPU + *u.DeferredCPU
		rest := others
		if s.all > 0 {
			rest = int64(idle(u.ID, others) * 1e9)
		}
		late, guarded := others-rest, int64(0)
		if s.outside > 0 {
			guarded = int64(float64(rest) / s.outside * ratio * t.guardSeconds())
		}
		t.guards[plane] += float64(guarded)
		u.End.CPU = max(u.Start.CPU, u.End.CPU-*u.DeferredCPU+late-guarded)
		u.IdleCPU, u.DeferredCPU = &rest, &late
	}
}

// Bursts beyond burstShare of the cost withhold it if they are in fewer blocks than minBlocks, and in less than mostBlocks of them.
const (
	burstShare = 0.1
	minBlocks  = 8
	mostBlocks = 0.7
)

// fewBursts withholds the CPU of the parts of which the work of a plane without requests is a large share, and came in too few
// bursts for an interval. The number of trials with bursts is the number of equal trials with the same sum and sum of squares.
func fewBursts(trials []*sliced, at map[*sliced]signs, plane metric.Plane) *Warning {
	var sum, squares, own float64
	cost := map[metric.Plane]float64{} // s of CPU in own slices
	for _, t := range trials {
		quiet := t.before.plus(t.after)
		cpu, length := quiet.rate(t.record.Tasks, plane)*quiet.seconds(), at[t].outside+quiet.seconds()
		cpu += at[t].all
		sum, squares = sum+cpu, squares+cpu*cpu
		inside := 0.0
		for _, row := range t.rows {
			if row.Own {
				inside += (row.End - row.Begin).Seconds()
				for p, ns := range row.CPU {
					cost[p] += time.Duration(ns).Seconds()
				}
			}
		}
		if length > 0 {
			own += cpu / length * inside
		}
	}
	n := float64(len(trials))
	if n < stats.MinN || squares == 0 || sum*sum/squares >= min(minBlocks, mostBlocks*n) {
		return nil
	}
	var of []string
	for _, part := range metric.Parts() {
		all := lists.Sum(part.Planes, func(p metric.Plane) float64 { return cost[p] })
		if slices.Contains(part.Planes, plane) && own >= burstShare*all {
			of = append(of, metric.Of(metric.CPUPerRequest, part.Name), metric.Of(metric.CPUCores, part.Name), metric.Of(metric.CPUPer1000, part.Name))
		}
	}
	if of == nil {
		return nil
	}
	seen := sum * sum / squares
	return &Warning{Code: "cpu-bursts", Withholds: true, Metrics: of,
		Message: fmt.Sprintf("plane %s used %.2g s of CPU without requests, in bursts in about %.0f of %.0f blocks: an interval needs %d blocks with bursts", plane, sum, max(1, seen), n, minBlocks),
		Hint:    fmt.Sprintf("raise phases.measure or blocks %.0f times", math.Ceil(minBlocks/seen))}
}

// lostShare is the share of the CPU of own slices that may be missing without withholding the CPU. It widens the interval.
const lostShare = 0.05

// boundLoss bounds what trials lack whose warm-up was shorter than the time for which their treatment defers work: what their last
// requests deferred is beyond the trial, and nothing before it replaces that. deferred is the work of a trial in the slices of
// others; of work that is deferred for longer than these last, they have a part.
func boundLoss(trials []*sliced, plane metric.Plane, deferred float64) {
	var seen []float64
	for _, t := range trials {
		if s := t.record.BurstSeconds; s > 0 {
			seen = append(seen, s)
		}
	}
	if len(seen) == 0 {
		return
	}
	slices.Sort(seen)
	period := seen[len(seen)/2]
	short, with := 0, 0
	for _, t := range trials {
		if p := t.record.Placing; p != nil && p.Seconds < 0.95*period {
			short++
			if t.record.BurstSeconds > 0 {
				with++
			}
		}
	}
	if 2*with < short { // a single burst may be of the machine
		return
	}
	for _, t := range trials {
		p := t.record.Placing
		if p == nil || p.Seconds >= 0.95*period {
			continue
		}
		var own, outside float64
		for _, row := range t.rows {
			if row.Own {
				own += time.Duration(row.CPU[plane]).Seconds()
			} else {
				outside += (row.End - row.Begin).Seconds()
			}
		}
		lost := deferred
		if outside > 0 {
			lost *= max(1, period/outside)
		}
		if lost <= lostShare*own {
			limit := t.limits[plane]
			limit.Above += lost
			t.limits[plane] = limit
			continue
		}
		t.withheld = &Warning{Code: "work-deferred", Withholds: true, Metrics: []string{metric.CPUPerRequest, metric.CPUCores, metric.CPUPer1000},
			Message: fmt.Sprintf("requests defer work for up to %.1f s, and the warm-up of this trial was %.1f s: the work of its last requests is missing", period, p.Seconds),
			Hint:    fmt.Sprintf("have a longer warm-up: `tare run FILE --set phases.warmup=%ds`", int(math.Ceil(period)))}
	}
}

// limitsOf are the limits of the metrics of a trial's CPU.
func (t *sliced) limitsOf(values map[string]float64) map[string]Limit {
	if len(t.limits) == 0 {
		return nil
	}
	used := map[metric.Plane]float64{}
	for _, u := range t.record.Tasks {
		used[u.Plane] += float64(u.End.CPU-u.Start.CPU) / 1e9
	}
	all := map[string]Limit{}
	for _, p := range metric.Parts() {
		var cost float64
		var sum Limit
		for _, plane := range p.Planes {
			cost += used[plane]
			sum.Below, sum.Above = sum.Below+t.limits[plane].Below, sum.Above+t.limits[plane].Above
		}
		if cost <= 0 || sum == (Limit{}) {
			continue
		}
		for _, base := range []string{metric.CPUPerRequest, metric.CPUCores, metric.CPUPer1000} {
			name := metric.Of(base, p.Name)
			if v, ok := values[name]; ok {
				all[name] = Limit{Below: v * sum.Below / cost, Above: v * sum.Above / cost}
			}
		}
	}
	return all
}
