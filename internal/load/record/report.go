package record

import (
	"runtime/debug"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

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
	r.Whole = &load.Whole{Sent: t.whole.sent, Unanswered: t.whole.unanswered, Failed: t.whole.failed, Retried: t.whole.retried, Connections: t.connect.TotalCount()}
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
	r.Histogram, r.Times, r.FirstByte = histogram(t.response), t.times(), t.firstByte
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
