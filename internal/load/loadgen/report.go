package loadgen

import (
	"cmp"
	"fmt"
	"runtime/debug"
	"strings"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// Limits beyond which the generator, not the server, was measured.
const (
	reachedRate    = 0.995 // of what was intended
	latenessFloor  = 50.0  // µs, p99
	latenessShare  = 0.10  // of the median response time
	threadCPULimit = 0.90  // of one core
)

// Facts are what a report holds beside what the workers counted.
type Facts struct {
	Engine    string
	Protocols string // of the targets, each once
	Started   time.Time
	// Quota is the number of requests after which all workers stop; math.MaxInt64: none.
	Quota int64
}

// window is the measured part of the measure window.
func (c *collector) window(results []*totals) time.Duration {
	limited := c.profile.Requests > 0
	wall := c.profile.Measure
	if limited {
		wall = 0
	}
	for _, w := range results {
		if limited {
			wall = max(wall, w.covered) // workers end one after another
		} else {
			wall = min(wall, w.covered)
		}
	}
	return wall
}

// report merges the workers' totals. host returns the state of the machine in a
// window of the given length.
func (c *collector) report(f Facts, results []*totals, host func(wall time.Duration) Host) Report {
	t := newTotals()
	p := c.profile
	r := Report{Engine: f.Engine, Version: version(), Loop: "open", Protocol: f.Protocols, Arrivals: p.Arrivals, AskedRequests: p.Requests, Verdict: "ok", Warnings: []string{}}
	if p.Rate == 0 {
		r.Loop, r.Arrivals = "closed", ""
	}
	wall := c.window(results)
	for _, w := range results {
		t.add(w)
		if w.wall > 0 {
			// Polling takes only what nothing else is to be done with.
			worked := max(0, w.threadCPU-w.polled)
			r.ThreadCPURatio = max(r.ThreadCPURatio, worked.Seconds()/w.wall.Seconds())
		}
	}
	r.Started = f.Started.Round(0)
	r.MeasureStart = r.Started.Add(p.Warmup)
	r.MeasureEnd = r.MeasureStart.Add(wall)
	fill(&r, &t)
	paths, _ := p.routes()
	r.Routes = byRoute(paths, t.routes)
	if p.Parts > 0 {
		r.Parts = t.distributions()
	}
	if wall > 0 {
		r.Rate = float64(t.completed) / wall.Seconds()
	}
	r.Host = host(wall)
	judge(&r, &t, wall < p.Measure && t.intended != f.Quota)
	if want := int64(p.Connections); t.connected < want && !p.NoKeepAlive {
		r.warn("%d of %d connections were open when the load began: %v", t.connected, want, r.ConnectErrors)
	}
	if wall == p.Measure {
		judgeHalves(&r, c.seconds, p.Warmup, p.Measure)
	}
	judgeHost(&r)
	return r
}

func (t *totals) add(w *totals) {
	t.intended += w.intended
	t.sent += w.sent
	t.completed += w.completed
	t.bytesIn += w.bytesIn
	t.bytesOut += w.bytesOut
	t.reconnects += w.reconnects
	t.idleClosed += w.idleClosed
	t.unfinished += w.unfinished
	t.processCPU += w.processCPU
	t.queueMax += w.queueMax // an upper bound: the maxima need not coincide
	t.spin = max(t.spin, w.spin)
	for i, n := range w.classes {
		t.classes[i] += n
	}
	for i, n := range w.statuses {
		t.statuses[i] += n
	}
	for i, n := range w.kinds {
		t.kinds[i] += n
	}
	for _, pair := range [][2]*hdrhistogram.Histogram{
		{t.response, w.response}, {t.service, w.service}, {t.lateness, w.lateness}, {t.ownDelay, w.ownDelay},
		{t.firstByte, w.firstByte}, {t.message, w.message}, {t.connect, w.connect}, {t.handshake, w.handshake},
		{t.lookup, w.lookup}, {t.gaps.sent, w.gaps.sent}, {t.gaps.intended, w.gaps.intended},
	} {
		if pair[1].TotalCount() > 0 {
			pair[0].Merge(pair[1])
		}
	}
	for addr, n := range w.addresses {
		t.addresses[addr] += n
	}
	t.dropped += w.dropped
	t.routes = addRoutes(t.routes, w.routes)
	t.messages += w.messages
	t.redirects += w.redirects
	t.connected += w.connected
	t.resumed += w.resumed
	t.secured = cmp.Or(t.secured, w.secured)
	for i, n := range w.openKinds {
		t.openKinds[i] += n
	}
}

func fill(r *Report, t *totals) {
	r.Intended, r.Sent, r.Completed = t.intended, t.sent, t.completed
	r.BytesIn, r.BytesOut = t.bytesIn, t.bytesOut
	r.QueueMax, r.Reconnects, r.IdleClosed = t.queueMax, t.reconnects, t.idleClosed
	r.CPUSeconds = t.processCPU.Seconds()
	r.SpinUS = float64(t.spin) / 1e3
	r.Classes, r.Requests = map[Class]int64{}, 0
	for i, n := range t.classes {
		r.Classes[classNames[i]] = n
		r.Requests += n
	}
	r.Connected, r.ConnectErrors = t.connected, byName(&t.openKinds)
	r.ResolveMS, r.Addresses = quantiles(t.lookup, 1e6), make(map[string]int64, len(t.addresses))
	for addr, n := range t.addresses {
		r.Addresses[addr.String()] = n
	}
	r.Statuses, r.Errors = map[string]int64{}, byName(&t.kinds)
	for code, n := range t.statuses {
		if code > 0 && code != statusEcho && n > 0 {
			r.Statuses[statusName(code)] = n
		}
	}
	r.ResponseMS, r.ServiceMS = quantiles(t.response, 1e6), quantiles(t.service, 1e6)
	r.TTFBMS, r.ConnectMS, r.TLSMS = quantiles(t.firstByte, 1e6), quantiles(t.connect, 1e6), quantiles(t.handshake, 1e6)
	r.TLS, r.TLSResumed = t.secured, t.resumed
	r.Dropped, r.Redirects = t.dropped, t.redirects
	r.Messages, r.FirstMessageMS = t.messages, quantiles(t.message, 1e6)
	r.GapDistance = t.gaps.distance()
	r.LatenessUS, r.OwnLatenessUS = quantiles(t.lateness, 1e3), quantiles(t.ownDelay, 1e3)
}

// byName lists what occurred.
func byName(counts *[kinds]int64) map[string]int64 {
	named := map[string]int64{}
	for k, n := range counts {
		if k != int(kindNone) && n > 0 {
			named[kind(k).String()] = n
		}
	}
	return named
}

// quantiles of h (ns) in units of so many ns.
func quantiles(h *hdrhistogram.Histogram, unit float64) Quantiles {
	if h.TotalCount() == 0 {
		return Quantiles{}
	}
	at := h.ValueAtPercentilesSlice([]float64{50, 90, 99, 99.9, 99.99})
	in := func(i int) float64 { return float64(at[i]) / unit }
	return Quantiles{
		Count: h.TotalCount(), Mean: h.Mean() / unit,
		P50: in(0), P90: in(1), P99: in(2), P999: in(3), P9999: in(4), Max: float64(h.Max()) / unit,
	}
}

// judge says whether the generator was the limit, and which limit it was.
func judge(r *Report, t *totals, cut bool) {
	if r.MeasureEnd.Equal(r.MeasureStart) {
		r.invalid("stopped before the measure window began")
		return
	}
	if cut {
		r.warn("stopped before the measure window was over: it is %v long", r.MeasureEnd.Sub(r.MeasureStart).Round(time.Millisecond))
	}
	if r.Loop == "open" {
		judgeOpen(r, t)
	}
	if r.ThreadCPURatio > threadCPULimit {
		r.invalid("the busiest worker used %.0f %% of a core (limit %.0f %%): use more workers or fewer requests",
			100*r.ThreadCPURatio, 100*threadCPULimit)
	}
	if t.unfinished > 0 {
		r.warn("%d requests were still unanswered at the end of the drain and count as time-outs", t.unfinished)
	}
}

func judgeOpen(r *Report, t *totals) {
	failed := r.Classes[Conn] + r.Classes[Timeout]
	if done := r.Completed + failed; float64(done) < reachedRate*float64(r.Intended) {
		r.invalid("rate missed: %d of %d requests ended in the window (%.1f %%, limit %.1f %%), %d were dropped",
			done, r.Intended, 100*float64(done)/float64(r.Intended), 100*reachedRate, r.Dropped)
	}
	if limit := max(latenessFloor, latenessShare*r.ResponseMS.P50*1e3); r.OwnLatenessUS.P99 > limit {
		r.invalid("sent late: p99 lateness of the generator's own is %.0f µs (limit %.0f µs, the larger of 50 µs and 10 %% of the median response time)",
			r.OwnLatenessUS.P99, limit)
	}
	if r.GapDistance > gapLimit {
		r.invalid("arrivals not as asked: the gaps between sends are %.0f %% of a mean gap away from the intended ones (limit %.0f %%)",
			100*r.GapDistance, 100*gapLimit)
	}
	if waited := r.LatenessUS.P99 - r.OwnLatenessUS.P99; waited > max(latenessFloor, latenessShare*r.ResponseMS.P50*1e3) {
		r.warn("requests waited for a free connection (p99 of lateness %.0f µs, at most %d at once): the wait is part of the response time; more connections would shorten it",
			r.LatenessUS.P99, t.queueMax)
	}
}

func (r *Report) warn(format string, args ...any) {
	r.Warnings = append(r.Warnings, fmt.Sprintf(format, args...))
}

// invalid makes the verdict so and names the limit; several limits follow one another.
func (r *Report) invalid(format string, args ...any) {
	why := fmt.Sprintf(format, args...)
	r.Warnings = append(r.Warnings, why)
	if r.Verdict == "ok" {
		r.Verdict = "invalid: " + why
	} else {
		r.Verdict = strings.Join([]string{r.Verdict, why}, "; ")
	}
}

// version is what the build recorded.
func version() string {
	if info, ok := debug.ReadBuildInfo(); ok && info.Main.Version != "" && info.Main.Version != "(devel)" {
		return info.Main.Version
	}
	return "devel"
}
