package record

import (
	"cmp"
	"crypto/tls"
	"errors"
	"fmt"
	"math"
	"net/http"
	"net/url"
	"runtime/debug"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"github.com/tare-mesh/tare/internal/base/lists"
	"github.com/tare-mesh/tare/internal/base/printable"
	"github.com/tare-mesh/tare/internal/load"
)

// Facts are the parts of a report that workers do not count.
type Facts struct {
	Protocols string // of the targets, each once
	Started   time.Time
	// Quota is the number of requests after which all workers stop, math.MaxInt64 for
	// none.
	Quota int64
}

// engineName is the engine of every report: older reports have others.
const engineName = "epoll"

// Report merges the workers' totals. host returns the state of the machine in a
// window of the given length.
func (c *Collector) Report(f Facts, results []*Totals, host func(wall time.Duration) load.Host) load.Report {
	t := newTotals()
	p := c.profile
	r := load.Report{Engine: engineName, Version: version(), Loop: "open", Protocol: f.Protocols, Arrivals: p.Arrivals, AskedRequests: p.Requests,
		Generator: load.Generator{OK: true}, Verdict: "ok", Warnings: []string{}}
	if p.Rate == 0 {
		r.Loop, r.Arrivals = "closed", ""
	}
	if r.Arrivals == load.Poisson || r.Arrivals == load.Uniform {
		r.Seed = p.Seed
	}
	wall := c.window(results)
	t.processCPU = processCPU(results)
	for _, w := range results {
		t.add(w)
		if w.wall > 0 {
			// Polling takes only what nothing else is to be done with.
			worked := max(0, w.ThreadCPU-w.Polled)
			// In the slices of others it sleeps.
			busy := w.wall.Seconds() * p.Loaded().Seconds() / p.Measure.Seconds()
			r.ThreadCPURatio = max(r.ThreadCPURatio, worked.Seconds()/busy)
		}
	}
	r.Started = f.Started.Round(0)
	r.MeasureStart = r.Started.Add(p.Warmup)
	r.MeasureEnd = r.MeasureStart.Add(wall)
	fill(&r, &t)
	paths, _ := p.Paths()
	routes := routesOf(paths, t.routes)
	r.Routes = routeTimes(routes)
	if p.Parts > 0 {
		r.Parts = t.distributions()
		r.Parts.Routes = encodeRoutes(routes)
	}
	if wall > 0 {
		r.Rate = float64(t.completed) / wall.Seconds()
	}
	if p.Slices != nil {
		r.LoadedSeconds, r.Slices = p.Loaded().Seconds(), t.slices.own(p)
		r.Rate = float64(t.completed) / r.LoadedSeconds
	}
	r.Host = host(wall)
	judge(&r, &t, wall < p.Measure && t.Intended != f.Quota)
	judgeConnections(&r, p)
	if wall == p.Measure {
		judgeHalves(&r, c.log, p.Warmup, p.Measure)
	}
	judgeHost(&r)
	return r
}

// window is the measured part of the measure window.
func (c *Collector) window(results []*Totals) time.Duration {
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

// processCPU is the CPU time of the process in the window. Workers end one after another.
func processCPU(results []*Totals) time.Duration {
	var from, to time.Duration
	for i, w := range results {
		if i == 0 || w.process[0] < from {
			from = w.process[0]
		}
		to = max(to, w.process[1])
	}
	return to - from
}

func fill(r *load.Report, t *Totals) {
	for _, c := range t.counters(r) {
		*c[1] = *c[0]
	}
	r.Whole = new(t.whole)
	r.Whole.Connections = t.connect.TotalCount()
	r.CPUSeconds = t.processCPU.Seconds()
	r.SpinUS = float64(t.Spin) / 1e3
	r.Classes, r.Requests = map[load.Class]int64{}, 0
	for i, n := range t.classes {
		r.Classes[classNames[i]] = n
		r.Requests += n
	}
	r.ConnectErrors, r.Lost = byName(&t.OpenKinds), byName(&t.lost)
	r.Addresses = make(map[string]int64, len(t.addresses))
	for addr, n := range t.addresses {
		r.Addresses[addr.String()] = n
	}
	r.Statuses, r.Errors, r.Reasons = map[string]int64{}, byName(&t.kinds), t.reasonsByName()
	r.Result, r.FailedMS = t.outcome(), t.failed.quantiles()
	r.Histogram = histogram(t.response)
	for code, n := range t.statuses {
		if code > 0 && code != load.StatusEcho && n > 0 {
			r.Statuses[load.StatusName(code)] = n
		}
	}
	r.ResponseMS, r.ServiceMS = quantiles(t.response, 1e6), quantiles(t.service, 1e6)
	r.TTFBMS, r.ConnectMS, r.TLSMS = quantiles(t.firstByte, 1e6), quantiles(t.connect, 1e6), quantiles(t.handshake, 1e6)
	r.TLS, r.FirstMessageMS = t.TLS, quantiles(t.message, 1e6)
	r.MessageGapMS = quantiles(t.gap, 1e6)
	r.RoundTripMS = quantiles(t.roundTrip, 1e6)
	r.GapDistance = t.Gaps.distance()
	r.LatenessUS, r.OwnLatenessUS = quantiles(t.lateness, 1e3), quantiles(t.ownDelay, 1e3)
}

// byName lists what occurred.
func byName(counts *[load.FailureCount]int64) map[string]int64 {
	named := map[string]int64{}
	for k, n := range counts {
		if k != int(load.FailureNone) && n > 0 {
			named[load.Failure(k).String()] = n
		}
	}
	return named
}

// quantiles of h (ns) in a unit of that many ns.
func quantiles(h *hdrhistogram.Histogram, unit float64) load.Quantiles {
	if h.TotalCount() == 0 {
		return load.Quantiles{}
	}
	at := h.ValueAtPercentilesSlice([]float64{10, 25, 50, 75, 90, 95, 99, 99.9, 99.99, 100})
	in := func(i int) float64 { return float64(at[i]) / unit }
	return load.Quantiles{
		Count: h.TotalCount(), Mean: h.Mean() / unit, Min: float64(h.Min()) / unit,
		P10: in(0), P25: in(1), P50: in(2), P75: in(3), P90: in(4), P95: in(5), P99: in(6), P999: in(7), P9999: in(8),
		Max: in(9),
	}
}

func version() string {
	if info, ok := debug.ReadBuildInfo(); ok && info.Main.Version != "" && info.Main.Version != "(devel)" {
		return info.Main.Version
	}
	return "devel"
}

// histogram sorts times (ns) into buckets, and leaves out empty ones.
func histogram(h *hdrhistogram.Histogram) []load.Bucket {
	var buckets []load.Bucket
	to, most := 0.0, h.Max() // ms and ns
	for _, bar := range h.Distribution() {
		if bar.Count == 0 {
			continue
		}
		if at := float64(min(bar.To, most)) / 1e6; at > to || buckets == nil {
			to = load.BoundAbove(at, load.HistogramBounds)
			buckets = append(buckets, load.Bucket{ToMS: to})
		}
		buckets[len(buckets)-1].Count += bar.Count
	}
	return buckets
}

// skewLimit is the difference of clocks, or its uncertainty, that is
// worth a warning, µs: or a tenth of the median response time, if that is more.
const skewLimit = 1000.0

// judgeClocks compares the clocks of all parts, where each has been measured.
func judgeClocks(r *load.Report, parts []load.Report) {
	var least, most, bound float64
	for i := range parts {
		c := parts[i].Clock
		if c == nil {
			return
		}
		if i == 0 {
			least, most = c.AheadUS, c.AheadUS
		}
		least, most, bound = min(least, c.AheadUS), max(most, c.AheadUS), max(bound, c.BoundUS)
	}
	r.Clock = nil
	r.ClockSkewUS, r.ClockBoundUS = most-least, 2*bound
	limit := max(skewLimit, 0.1*r.ResponseMS.P50*1e3)
	if r.ClockSkewUS > limit {
		r.Warn("the clocks of the parts differ by %.0f µs (± %.0f µs, limit %.0f µs): each part's start is corrected for its own clock", r.ClockSkewUS, r.ClockBoundUS, limit)
	}
	if r.ClockBoundUS > limit {
		r.Warn("the clocks of the parts could be compared only to ± %.0f µs (limit %.0f µs): the parts may have started so far apart", r.ClockBoundUS, limit)
	}
}

// Limits of the generator. Beyond a limit the generator was measured, not the server.
// A note is printed beside the times.
const (
	reachedRate    = 0.995 // of the intended requests
	threadCPULimit = 0.90  // of one core
	gapNote        = 0.10  // distance of sent from intended gaps, in mean gaps
	gapLimit       = 0.50  // likewise: requests sent in pairs instead of one by one

	// Lateness is part of the response time, so it is compared with the median response
	// time. The limits at p99 equal the limits of a trial: it is marked above the larger of 1 ms
	// and 10 % of the median, and its times are withheld above ten times that.
	latenessFloor = 50.0     // µs. A smaller lateness is ignored
	latenessNote  = 0.10     // p99, of the median response time
	latenessHalf  = 0.50     // p50, likewise: the median is then more of the generator than of the server
	latenessGross = 10_000.0 // p99, µs, or the median response time if that is more
)

// judge finds the limits of the generator that were reached, and sets the verdict.
func judge(r *load.Report, t *Totals, cut bool) {
	if r.MeasureEnd.Equal(r.MeasureStart) {
		r.Invalidate("stopped before the measure window began")
		return
	}
	if cut {
		r.Warn("stopped before the measure window was over: it is %v long", r.MeasureEnd.Sub(r.MeasureStart).Round(time.Millisecond))
	}
	if r.Loop == "open" {
		judgeRate(r)
		judgeLateness(r, t)
		judgeGaps(r)
	}
	if r.ThreadCPURatio > threadCPULimit {
		r.Limit("the busiest worker used %.0f %% of a core (limit %.0f %%): use more workers or fewer requests",
			100*r.ThreadCPURatio, 100*threadCPULimit)
	}
	if t.LateRests > 0 {
		r.Note("%d times the load waited 100 ms for more window of HTTP/2, which the server did not return: the wait is part of the times", t.LateRests)
	}
	if t.Unfinished > 0 {
		r.Warn("%d requests were still unanswered at the end of the drain and count as timeouts", t.Unfinished)
	}
}

// judgeRate invalidates the verdict of v1 if too few requests ended. That alone is not a
// limit of the generator: the server or the connections may be the reason.
func judgeRate(r *load.Report) {
	failed := r.Classes[load.Conn] + r.Classes[load.Timeout]
	if done := r.Completed + failed; float64(done) < reachedRate*float64(r.Intended) {
		r.Invalidate("rate missed: %d of %d requests ended in the window (%.1f %%, limit %.1f %%)",
			done, r.Intended, 100*float64(done)/float64(r.Intended), 100*reachedRate)
	}
}

func judgeLateness(r *load.Report, t *Totals) {
	if r.ResponseMS.Count == 0 {
		return // no times to compare with
	}
	own, median := r.OwnLatenessUS, r.ResponseMS.P50*1e3
	note := max(latenessFloor, latenessNote*median)
	switch {
	case own.P50 > max(latenessFloor, latenessHalf*median):
		r.Limit("sent late: the generator delayed half of the requests by %.0f µs or more, and the median response time with that is %.0f µs", own.P50, median)
	case own.P99 > max(latenessGross, median):
		r.Limit("sent late: p99 lateness of the generator's own is %.1f ms (limit %.1f ms, the larger of 10 ms and the median response time)",
			own.P99/1e3, max(latenessGross, median)/1e3)
	case own.P99 > note:
		r.Note("sent late: p99 lateness of the generator's own is %.0f µs, which is part of the response times (median %.0f µs)", own.P99, median)
	}
	if waited := r.LatenessUS.P99 - own.P99; waited > note {
		r.Warn("requests waited for a free connection (p99 of lateness %.0f µs, at most %d at once): the wait is part of the response time; more connections would shorten it",
			r.LatenessUS.P99, t.QueueMax)
	}
}

func judgeGaps(r *load.Report) {
	const text = "arrivals differ from the intended ones: gaps between sends are off by %.0f %% of a mean gap"
	switch {
	case r.GapDistance > gapLimit:
		r.Limit(text+" (limit %.0f %%)", 100*r.GapDistance, 100*gapLimit)
	case r.GapDistance > gapNote:
		r.Note(text, 100*r.GapDistance)
	}
}

// Limits of the checks a run makes of itself.
const (
	halfLimit    = 0.25            // change of the median between the halves of the window
	halfFloorNS  = 50e3            // smaller changes are ignored
	minHalf      = 2 * time.Second // whole seconds in each half, at least
	minGaps      = 100
	stealLimit   = 0.01 // of the machine's CPU time, taken by the hypervisor
	pressureMost = 0.20 // of the time, some task waited for a CPU
)

// judgeHalves warns where the median response time changed within the window.
func judgeHalves(r *load.Report, log map[time.Duration]*logInterval, warmup, measure time.Duration) {
	first, last := (warmup + time.Second - 1).Truncate(time.Second), (warmup + measure).Truncate(time.Second)
	if last-first < 2*minHalf {
		return
	}
	half := ((last - first) / 2).Truncate(time.Second)
	var halves [2]*hdrhistogram.Histogram
	for i, begin := range []time.Duration{first, last - half} {
		halves[i] = newHistogram()
		for from, l := range log {
			if from >= begin && l.to <= begin+half && l.response[classOK] != nil {
				l.response[classOK].MergeInto(halves[i])
			}
		}
	}
	a, b := float64(halves[0].ValueAtPercentile(50)), float64(halves[1].ValueAtPercentile(50))
	if a > 0 && b > 0 && math.Abs(b-a) > max(halfFloorNS, halfLimit*min(a, b)) {
		r.Warn("not steady: the median response time was %.3f ms in the first half of the window and %.3f ms in the second; use a longer warm-up, or find the cause",
			a/1e6, b/1e6)
	}
}

// judgeHost warns of a machine that others kept from working.
func judgeHost(r *load.Report) {
	if r.Host.StealRatio > stealLimit {
		r.Note("the hypervisor took %.1f %% of the machine's CPU time in the window (limit %.0f %%)", 100*r.Host.StealRatio, 100*stealLimit)
	}
	if r.Host.CPUPressure > pressureMost {
		r.Note("tasks waited for a CPU during %.0f %% of the window (limit %.0f %%): the machine is too busy", 100*r.Host.CPUPressure, 100*pressureMost)
	}
}

// judgeConnections warns where fewer connections were open than the profile has. It names
// the server if that closed the missing ones.
func judgeConnections(r *load.Report, p *load.Profile) {
	want := int64(p.Connections)
	if r.ExtraBytes > 0 {
		r.Warn("on %d connections the server sent bytes after the end of a response%s: no request counts as failed by that", r.ExtraBytes,
			map[bool]string{true: " to HEAD, which has no body"}[p.Method == http.MethodHead])
	}
	switch {
	case r.ConnectErrors[load.FailureNoDescriptors.String()] > 0: // whatever the server did
		r.Warn("%d of %d connections were open when the load began, as this machine ran out of file descriptors%s: %s",
			r.Connected, want, filesLimit(), Tally(r.ConnectErrors, r.Reasons))
	case p.NoKeepAlive:
	case r.GoAways > 0 && r.ClosedUnused > 0 && r.Held < want:
		why := ""
		if reason := r.Reasons[load.FailureGoAway.String()]; reason != "" {
			why = ", " + reason
		}
		r.Warn("the server ended %d connections by GOAWAY%s: %d of them before their first response", r.GoAways, why, min(r.GoAways, r.ClosedUnused))
	case r.ClosedUnused > 0 && r.Held < want && r.Completed > 0:
		r.Warn("the server holds only %d of %d connections: it closed %d before their first response; use fewer connections, or raise its limit",
			r.Held, want, r.ClosedUnused)
	case r.Connected < want:
		r.Warn("%d of %d connections were open when the load began: %s", r.Connected, want, cmp.Or(Tally(r.ConnectErrors, r.Reasons), "no more could be opened in time"))
	}
}

// filesLimit names the limit of this process, the load's, in brackets.
func filesLimit() string {
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		return ""
	}
	return fmt.Sprintf(" (limit of a process: %d; raise it with ulimit -n, or use fewer connections)", limit.Cur)
}

// Gaps compares the actual with the intended send times. If the gaps between sends
// have the intended distribution, the arrivals are as configured. Only requests that
// found a free connection count. The send time of the others depends on the server,
// not on the generator.
type Gaps struct {
	sent, intended         *hdrhistogram.Histogram
	lastSent, lastIntended int64 // negative: the request before does not count
}

func newGaps() Gaps { return Gaps{sent: newLive(), intended: newLive(), lastSent: -1} }

// Add takes the next request of the schedule.
func (g *Gaps) Add(sent, intended int64) {
	if g.lastSent >= 0 {
		put(g.sent, sent-g.lastSent)
		put(g.intended, intended-g.lastIntended)
	}
	g.lastSent, g.lastIntended = sent, intended
}

// Skip records that the next request waited.
func (g *Gaps) Skip() { g.lastSent = -1 }

// distance is the Wasserstein distance between the two distributions (the area
// between their cumulated forms) in mean gaps: 0 for the same, about 1 where
// regular arrivals have become bursts. Unlike the Kolmogorov-Smirnov distance it
// is small for a small jitter about equal gaps.
func (g *Gaps) distance() float64 {
	n, mean := g.intended.TotalCount(), g.intended.Mean()
	if n < minGaps || mean == 0 {
		return 0
	}
	a, b := g.sent.Distribution(), g.intended.Distribution()
	var area, cumulated float64
	for i := range min(len(a), len(b)) {
		cumulated += float64(a[i].Count-b[i].Count) / float64(n)
		area += math.Abs(cumulated) * float64(a[i].To-a[i].From+1)
	}
	return area / mean
}

// failedNames are the classes of failed requests whose times are kept apart.
var failedNames = [...]string{
	"1xx", "2xx", "3xx", "4xx", "5xx", load.FailedGRPC, string(load.Timeout), string(load.Conn), load.FailedOther,
}

// failedTimes are the response times of failed requests, ns. A class without any is nil.
type failedTimes [len(failedNames)]*hdrhistogram.Histogram

// failedIndex is the index of a failed request's class in failedNames.
func failedIndex(class classIndex, status int) int {
	const grpc, timeout, conn, other = 5, 6, 7, 8
	switch {
	case class == classTimeout:
		return timeout
	case class == classConn:
		return conn
	case status >= load.StatusGRPC && status < load.StatusEcho:
		return grpc
	case status >= 100 && status < 600:
		return status/100 - 1
	}
	return other
}

func (f *failedTimes) add(from *failedTimes) {
	for i, h := range from {
		if h != nil {
			orNew(&f[i]).Merge(h)
		}
	}
}

// quantiles are in ms, by class.
func (f *failedTimes) quantiles() (named map[string]load.Quantiles) {
	for i, h := range f {
		if h != nil {
			set(&named, failedNames[i], quantiles(h, 1e6))
		}
	}
	return named
}

func (f *failedTimes) encode() (named map[string][]byte) {
	for i, h := range f {
		if h != nil {
			encoded, _ := h.EncodeV2() // writes to memory: cannot fail
			set(&named, failedNames[i], encoded)
		}
	}
	return named
}

func (f *failedTimes) decode(named map[string][]byte) error {
	for name, encoded := range named {
		i := slices.Index(failedNames[:], name)
		if i < 0 {
			i = len(failedNames) - 1
		}
		h, err := hdrhistogram.Decode(encoded)
		if err != nil {
			return err
		}
		orNew(&f[i]).Merge(h)
	}
	return nil
}

// maxReason bounds a reason, in characters.
const maxReason = 200

// Because stores the text of the first error of a kind.
func (r *Recorder) Because(k load.Failure, err error) {
	if r.reasons[k] == "" && err != nil {
		r.reasons[k] = reasonOf(err)
	}
}

// NotOpened counts a connection that could not be opened.
func (r *Recorder) NotOpened(k load.Failure) {
	r.OpenKinds[k]++
	if r.first == load.FailureNone {
		r.first = k
	}
}

// explain stores the reason of an outcome that the outcome itself shows. Requests without a connection have
// the reason of the first failure before them.
func (r *Recorder) explain(o *Outcome) {
	switch k := o.Kind; {
	case k == load.FailureNotSent:
		if r.first != load.FailureNone && r.reasons[k] == "" {
			r.reasons[k] = "first failure: " + load.Cause{Cause: r.first.String(), Detail: r.reasons[r.first]}.String()
		}
	case k == load.FailureNone || classOf(k) == classStatus:
	default:
		if k == load.FailureTimeout && o.Sent >= 0 && o.First >= o.Sent && r.reasons[k] == "" {
			r.reasons[k] = "an answer began and did not end"
		}
		if r.first == load.FailureNone {
			r.first = k
		}
	}
}

// Said stores the text of the first answer with a grpc-status, which is percent-encoded.
func (r *Recorder) Said(status int, message string) {
	if r.details[status] != "" {
		return
	}
	if text, err := url.PathUnescape(message); err == nil {
		message = text
	}
	r.details[status] = reasonOf(errors.New(message))
}

// reasonOf is an error's text without what the kind's name contains already, bounded
// and without control characters: a server may have chosen parts of it.
func reasonOf(err error) string {
	if verify := (*tls.CertificateVerificationError)(nil); errors.As(err, &verify) {
		err = verify.Err
	}
	text := []rune(printable.Line(err.Error()))
	if len(text) > maxReason {
		text = append(text[:maxReason-1], '…')
	}
	return string(text)
}

// outcome is the result of the requests counted by t.
func (t *Totals) outcome() load.Result {
	var all int64
	for _, n := range t.classes {
		all += n
	}
	if all == 0 {
		return load.Result{}
	}
	success := float64(t.classes[classOK]) / float64(all)
	r := load.Result{Success: &success}
	for status, n := range t.unsuccessful {
		if n > 0 {
			r.Failures = append(r.Failures, load.Cause{Cause: load.CauseStatus + load.StatusName(status), Count: n, Detail: t.details[status]})
		}
	}
	for k, n := range t.kinds {
		if kind := load.Failure(k); n > 0 && kind != load.FailureNone && kind != load.FailureWrongStatus {
			r.Failures = append(r.Failures, load.Cause{Cause: kind.String(), Count: n, Detail: t.reasons[k]})
		}
	}
	slices.SortStableFunc(r.Failures, func(a, b load.Cause) int { return cmp.Or(cmp.Compare(b.Count, a.Count), cmp.Compare(a.Cause, b.Cause)) })
	return r
}

// unsuccessfulOf reads back the statuses of outcome, and their texts.
func unsuccessfulOf(failures []load.Cause) (counts [load.StatusCount]int64, details map[int]string) {
	details = map[int]string{}
	for _, c := range failures {
		name, ok := strings.CutPrefix(c.Cause, load.CauseStatus)
		if status := load.StatusOf(name); ok && status > 0 {
			counts[status] = c.Count
			details[status] = c.Detail
		}
	}
	return counts, details
}

// reasonsByName lists the reasons that occurred.
func (t *Totals) reasonsByName() (named map[string]string) {
	for k, text := range t.reasons {
		if text != "" {
			set(&named, load.Failure(k).String(), text)
		}
	}
	return named
}

// Tally lists kinds of failures, the most frequent first, with the reason of each:
// "connect refused (53), reset (2)".
func Tally(counts map[string]int64, reasons map[string]string) string {
	return strings.Join(lists.Map(printable.MostFirst(counts), func(name string) string {
		return fmt.Sprintf("%s (%d)", load.Cause{Cause: name, Count: counts[name], Detail: reasons[name]}, counts[name])
	}), ", ")
}

// classIndex is a [Class] as an array index.
type classIndex uint8

const (
	classOK classIndex = iota
	classStatus
	classTimeout
	classConn
	classCount
)

var classNames = [classCount]load.Class{load.OK, load.Status, load.Timeout, load.Conn}

// classOf is the class of a request that ended with k.
func classOf(k load.Failure) classIndex {
	switch k {
	case load.FailureNone:
		return classOK
	case load.FailureWrongStatus, load.FailureWrongSize, load.FailureWrongBody, load.FailureNotJSON, load.FailureWrongJSON:
		return classStatus
	case load.FailureTimeout, load.FailureNotSent:
		return classTimeout
	}
	return classConn
}
