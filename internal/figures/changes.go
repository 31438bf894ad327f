package figures

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/tare-mesh/tare/internal/base/lists"
	"github.com/tare-mesh/tare/internal/experiment/app"
	"github.com/tare-mesh/tare/internal/experiment/expect"
	"github.com/tare-mesh/tare/internal/metric"
	"github.com/tare-mesh/tare/internal/result"
	"github.com/tare-mesh/tare/internal/stats"
)

// changeFigures computes how long changes took, and the requests that failed meanwhile, by kind.
func changeFigures(f *figures, r *result.Record) {
	if b := r.Background; b != nil && b.Asked > 0 && r.Load != nil && r.Load.MeasureSeconds > 0 {
		f.set(metric.BackgroundChanges, float64(b.Changes)/r.Load.MeasureSeconds)
	}
	if r.Background != nil && r.Background.Pushes != nil {
		pushFigures(f, r.Background.Pushes)
	}
	for _, described := range metric.ChangeKinds() {
		kind := described.Name
		var n, failed, failing, flaps float64
		var dropped, cut counted
		var kept unchanged
		var first, last []stats.Bounded
		for _, c := range r.Changes {
			if c.Kind != kind {
				continue
			}
			n++
			if described.ByConnection() {
				kept.add(c)
			}
			flaps += float64(c.Flaps)
			dropped.add(c.Dropped)
			cut.add(c.Cut)
			if failed += float64(c.Failed); c.Failed > 0 {
				failing++
			}
			if c.FirstNew != nil {
				first = append(first, c.FirstNew.Bounded())
			}
			if c.LastOld != nil {
				last = append(last, c.LastOld.Bounded())
			}
		}
		if n == 0 {
			continue
		}
		f.set(metric.Of(metric.ChangesMade, kind), n)
		f.set(metric.Of(metric.ChangeFailed, kind), failed/n)
		f.set(metric.Of(metric.ChangeFailing, kind), failing/n)
		if described.Shown == metric.Version {
			f.set(metric.Of(metric.ChangeFlaps, kind), flaps/n)
		}
		dropped.mean(f, metric.Of(metric.ChangeDropped, kind))
		cut.mean(f, metric.Of(metric.ChangeCut, kind))
		kept.report(f, kind, fmt.Sprint(r.Factors["protocol"]) == app.WebSocket)
		changeTimes(f, kind, [2]string{metric.ChangeFirstNew, metric.ChangeFirstNewMost}, first, stats.EarliestBounds)
		changeTimes(f, kind, [2]string{metric.ChangeLastOld, metric.ChangeLastOldMost}, last, stats.LatestBounds)
		changeCPU(f, kind, r)
	}
}

// counted is a mean of counts, of the changes that have one.
type counted struct{ n, sum float64 }

func (c *counted) add(count *int) {
	if count != nil {
		c.n, c.sum = c.n+1, c.sum+float64(*count)
	}
}

func (c *counted) mean(f *figures, name string) {
	if c.n > 0 {
		f.set(name, c.sum/c.n)
	}
}

// pushFigures takes over the times of pushes to simulated proxies.
func pushFigures(f *figures, p *result.Pushes) {
	f.set(metric.PushSync, p.SyncMS)
	if p.Pairs == 0 {
		return
	}
	f.set(metric.PushMissed, float64(p.Missed)/float64(p.Pairs))
	for name, times := range map[string]*result.PushTimes{metric.Push: p.EachMS, metric.PushLast: p.LastMS} {
		if times == nil {
			continue
		}
		for part, ms := range map[string]*float64{"p50": times.P50, "p99": times.P99} {
			if ms != nil {
				f.set(metric.Of(name, part), *ms)
			}
		}
	}
	if p.Unreached > 0 {
		f.warn("proxy-unreached", []string{metric.Push, metric.PushLast, metric.PushMissed},
			fmt.Sprintf("%d of %d simulated proxies received none of the changes (numbers %s)", p.Unreached, p.Proxies, strings.Trim(fmt.Sprint(p.UnreachedAt), "[]")),
			"the control plane sends them nothing: see its log in the trial's provenance directory, or lengthen phases.drain")
	}
}

// unchanged counts the changes that some connections or replicas never took over.
type unchanged struct {
	probed, changes, connections, of int
	replicas, ofReplicas             int
	at                               []string
}

func (u *unchanged) add(c result.Change) {
	if c.Connections == 0 {
		return
	}
	u.probed++
	u.of = max(u.of, c.Connections)
	u.connections += c.Unchanged
	if c.Unchanged > 0 {
		u.changes++
	}
	if len(c.UnchangedAt) > 0 {
		u.replicas++
		u.at, u.ofReplicas = c.UnchangedAt, max(u.ofReplicas, c.Replicas)
	}
}

// report warns if most of the changes did not reach every connection: one that is probed for a short time may reach it later.
func (u *unchanged) report(f *figures, kind string, sockets bool) {
	if u.probed == 0 {
		return
	}
	mean := float64(u.connections) / float64(u.probed)
	f.set(metric.Of(metric.ChangeUnchanged, kind), mean)
	if 2*u.changes <= u.probed {
		return
	}
	what := fmt.Sprintf("%.3g of %d connections", mean, u.of)
	if 2*u.replicas > u.probed {
		what = fmt.Sprintf("%d of %d replicas (%s)", len(u.at), u.ofReplicas, strings.Join(u.at, ", "))
	}
	hint := "a worker or a proxy does not take over the configuration, or later than changes.every and the end of the measure phase allow"
	if sockets {
		hint = "a WebSocket has the route of its handshake until it ends: an option of the proxy may end it after a reload"
	}
	f.warn("change-unlearned", []string{metric.ChangeLastOld}, fmt.Sprintf("%s never changed, in %d of %d changes of kind %s: they gave answers by the old configuration until it was undone or the load ended", what, u.changes, u.probed, kind), hint)
}

// lateShare is the share of changes that may take effect in the second half of the time to the next, which has the level
// of CPU without a change.
const lateShare = 0.05

// changeCPU computes the CPU time of a kind of change: what the first half of the time to the next has beyond the second.
func changeCPU(f *figures, kind string, r *result.Record) {
	var n, late, failed float64
	above, level := map[metric.Plane]float64{}, map[metric.Plane]float64{} // ns, ns per second
	for _, c := range r.Changes {
		if c.Kind != kind || c.CPU == nil || c.CPU.Seconds[1] <= 0 {
			continue
		}
		n++
		failed += float64(max(c.Failed, failedAfter(c)))
		for _, s := range []*result.Span{c.FirstNew, c.LastOld} {
			if s != nil && latestOf(s) > 1000*c.CPU.Seconds[0] {
				late++
				break
			}
		}
		for plane, ns := range c.CPU.NS {
			above[plane] += float64(ns[0]) - float64(ns[1])*c.CPU.Seconds[0]/c.CPU.Seconds[1]
			level[plane] += float64(ns[1]) / c.CPU.Seconds[1]
		}
	}
	switch {
	case n == 0:
		return
	case late > lateShare*n:
		f.warn("change-cpu-late", []string{metric.ChangeCPU}, fmt.Sprintf("the CPU of %s is unknown: %.0f of %.0f may have taken longer than half of the time between changes", kind, late, n),
			"leave more time between changes (changes.every)")
		return
	}
	if r.Load != nil && r.Load.MeasureSeconds > 0 && failed > 0 {
		rate, most, whole := float64(r.Answered())/r.Load.MeasureSeconds, 0.0, 0.0
		for plane, ns := range level {
			most, whole = most+ns/n/rate*failed, whole+math.Abs(above[plane])
		}
		if most > savedShare*whole {
			f.warn("change-cpu-saved", []string{metric.ChangeCPU}, fmt.Sprintf("the CPU of %s is unknown: %.0f requests failed during %.0f changes, which saved up to %.3g ms of CPU each", kind, failed, n, most/n/1e6),
				"a change without failures shows its CPU")
			return
		}
	}
	// Another took the place of one that ended.
	proxies := lists.Count(r.Tasks, func(t result.TaskUsage) bool { return t.Plane == metric.Data && !t.Ended })
	for _, plane := range []metric.Plane{metric.Control, metric.Data, metric.App} {
		ns, known := above[plane]
		if !known {
			continue
		}
		ms := ns / n / 1e6
		f.set(metric.Of(metric.ChangeCPU, kind+"-"+string(plane)), ms)
		if plane == metric.Data && proxies > 0 {
			f.set(metric.Of(metric.ChangeCPU, kind+"-proxy"), ms/float64(proxies))
		}
	}
}

// savedShare is the part of the CPU of a change that the work of failed requests may have saved. Beyond it the difference is of
// requests too, not of the change.
const savedShare = 0.1

// failedAfter is the number of requests that failed after a change was sent.
func failedAfter(c result.Change) (n int) {
	return lists.Count(c.FailedMS, func(ms float64) bool { return ms >= 0 })
}

// latestOf is the likely end of a span, ms: the longest wait of the sample after the last old answer, or the first new one.
func latestOf(s *result.Span) float64 {
	b := s.Bounded()
	if len(b.Waits) == 0 || math.IsInf(b.Before, 1) {
		return b.Before
	}
	return min(b.Before, b.After+slices.Max(b.Waits))
}

// changeTimes sets both bounds of each quantile of times.
func changeTimes(f *figures, kind string, names [2]string, times []stats.Bounded, bounds func([]stats.Bounded, float64) (low, high float64, known bool)) {
	for _, q := range metric.ChangeQuantiles {
		if len(times) < q.From {
			continue
		}
		low, high, known := bounds(times, q.Q)
		if !known || math.IsInf(high, 1) {
			f.warn("change-unfinished", names[:], fmt.Sprintf("the %g %% quantile of %s is unknown: too many changes had not reached every connection when the next ended them", 100*q.Q, metric.Of(names[0], kind)),
				"leave more time between changes (changes.every), and after the last")
			continue
		}
		f.set(metric.Of(names[0], kind)+q.End, low)
		f.set(metric.Of(names[1], kind)+q.End, high)
	}
}

// ChangeParts is where the time of a kind of change went in one trial: means in ms over the changes whose parts are known.
// Control plane and proxies count them themselves. They are a diagnosis, and part of no metric.
type ChangeParts struct {
	Kind    string       `json:"kind"`
	Changes int          `json:"changes"`  // changes of the means
	LeftOut int          `json:"left_out"` // changes left out: their parts are longer than the whole, or in no order
	Parts   []ChangePart `json:"parts"`
	// WholeMS is the time of the change that was observed, and ResolutionMS how much longer it may have been.
	WholeMS      float64 `json:"whole_ms"`
	ResolutionMS float64 `json:"resolution_ms"`
}

// ChangePart is a part of the time of a change.
type ChangePart struct {
	Name string  `json:"name"` // of [changePartNames], several joined by " + " if the instant between them is unknown
	MS   float64 `json:"ms"`
}

// changePartNames are the parts of the time of a change, in their order. The last one ends with the effect that probes showed.
var changePartNames = [4]string{"to the control plane", "control plane", "proxies", "workers"}

// PartJoin joins the names of parts that are known together only.
const PartJoin = " + "

// clockTolerance is how much later than its effect a proxy may count a configuration, in ms: it counts whole ms.
const clockTolerance = 1.0

// changeParts returns the parts of the changes of a trial, by kind.
func changeParts(r *result.Record) (all []ChangeParts) {
	for _, kind := range metric.ChangeNames(nil) {
		of := ChangeParts{Kind: kind}
		var best [3]bool // which instants are known of the changes in the means
		for i := range r.Changes {
			c := &r.Changes[i]
			span := c.Time()
			if c.Kind != kind || c.Parts == nil || span == nil || span.BeforeMS == nil {
				continue
			}
			at := [3]*float64{c.Parts.ReceivedMS, c.Parts.PushedMS, c.Parts.TakenMS}
			known := [3]bool{at[0] != nil, at[1] != nil, at[2] != nil}
			switch {
			case contradicted(at, *span.BeforeMS):
				of.LeftOut++
				continue
			case count(known) < count(best):
				continue
			case known != best:
				of = ChangeParts{Kind: kind, LeftOut: of.LeftOut}
				best = known
			}
			of.add(at, span.AfterMS, latestOf(span)-span.AfterMS)
		}
		if of.Changes+of.LeftOut > 0 {
			all = append(all, of)
		}
	}
	return all
}

func count(known [3]bool) int { return lists.Count(known[:], func(is bool) bool { return is }) }

// contradicted reports whether instants are in no order, or after the end of the change.
func contradicted(at [3]*float64, end float64) bool {
	last := 0.0
	for _, ms := range at {
		if ms == nil {
			continue
		}
		if *ms < last-clockTolerance {
			return true
		}
		last = max(last, *ms)
	}
	return last > end+clockTolerance
}

func (p *ChangeParts) add(at [3]*float64, whole, resolution float64) {
	p.Changes++
	mean := func(of *float64, v float64) { *of += (v - *of) / float64(p.Changes) }
	mean(&p.WholeMS, whole)
	mean(&p.ResolutionMS, resolution)
	var names []string
	from, n := 0.0, 0
	for i, name := range changePartNames {
		names = append(names, name)
		to := whole
		if i < len(at) {
			if at[i] == nil {
				continue
			}
			to = *at[i]
		}
		if n == len(p.Parts) {
			p.Parts = append(p.Parts, ChangePart{Name: strings.Join(names, PartJoin)})
		}
		mean(&p.Parts[n].MS, to-from)
		names, from, n = nil, to, n+1
	}
}

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
	for _, t := range tasksOf(r, part) {
		within := lists.Where(t.Memory, func(m result.MemoryReading) bool { return m.CPU > 0 && m.Seconds >= from && m.Seconds <= to })
		if len(within) < 2 {
			return 0, false
		}
		a, b := within[0], within[len(within)-1]
		cores, known = cores+float64(b.CPU-a.CPU)/1e9/(b.Seconds-a.Seconds), true
	}
	return cores, known
}

// startFigures computes how long a pod took to start and to stop, and the requests that a stop lost.
func startFigures(f *figures, r *result.Record) {
	if len(r.Starts) == 0 {
		return
	}
	lost := lists.Sum(r.Starts, func(s result.Start) int { return s.Lost })
	f.set(metric.StopLost, float64(lost)/float64(len(r.Starts)))
	for _, part := range metric.StartParts {
		for base, of := range map[string]func(result.Start) map[string]float64{
			metric.StartTime:  func(s result.Start) map[string]float64 { return s.FirstMS },
			metric.StartLeast: func(s result.Start) map[string]float64 { return s.LeastMS },
			metric.StopTime:   func(s result.Start) map[string]float64 { return s.GoneMS },
		} {
			var all []float64
			for _, s := range r.Starts {
				if ms, known := of(s)[part]; known {
					all = append(all, ms)
				}
			}
			if len(all) > 0 {
				f.set(metric.Of(base, part), stats.Quantile(all, 0.5))
			}
		}
	}
}
