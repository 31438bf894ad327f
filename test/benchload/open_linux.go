package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/tare-mesh/tare/internal/load"
	"github.com/tare-mesh/tare/internal/result"
	"github.com/tare-mesh/tare/internal/run/generator"
	"github.com/tare-mesh/tare/internal/stats"
)

// pacedRun is one run of a generator at a rate: its report beside the server's counts.
type pacedRun struct {
	p50, p90, p999 float64 // µs, of the latency the generator puts first
	requests       int64
	server         serverStats
	report         load.Report // tare's only
}

// parsers of the other generators' outputs.
var parsers = map[string]func(io.Reader, bool) (generator.Outcome, error){
	"fortio": func(r io.Reader, _ bool) (generator.Outcome, error) { return generator.ParseFortio(r) },
	"oha":    generator.ParseOha,
	"vegeta": func(r io.Reader, _ bool) (generator.Outcome, error) { return generator.ParseVegeta(r) },
	"wrk2":   func(r io.Reader, _ bool) (generator.Outcome, error) { return generator.ParseWrk2(r) },
}

// paced runs the generator called name with p against s and collects both reports.
func (b *bench) paced(ctx context.Context, name string, p load.Profile, s *subject, while func() error) (t pacedRun, err error) {
	if _, err = s.order(ctx, "/_reset"); err != nil {
		return t, err
	}
	g := b.generator(name)
	c, err := g.Command(p)
	if err != nil {
		return t, err
	}
	limit := p.Warmup + p.Measure + p.Tail + p.Drain + 25*time.Second // wrk2 calibrates for ten
	f, err := complete(ctx, c, limit, while)
	if err != nil {
		return t, err
	}
	if t.server, err = s.stats(ctx); err != nil {
		return t, err
	}
	if name == b.tare.Name() {
		if t.report, err = load.LastReport(f.out); err != nil {
			return t, err
		}
		t.p50, t.p90, t.p999 = t.report.ResponseMS.P50*1e3, t.report.ResponseMS.P90*1e3, t.report.ResponseMS.P999*1e3
		t.requests = t.report.Requests
		return t, nil
	}
	o, err := parsers[name](bytes.NewReader(f.out), true)
	if err != nil {
		return t, err
	}
	if len(o.Latencies) == 0 {
		return t, fmt.Errorf("%s reports no latency", name)
	}
	first := o.Latencies[0]
	if i := slices.IndexFunc(o.Latencies, func(l result.Latency) bool { return l.Of == "response" }); i >= 0 {
		first = o.Latencies[i]
	}
	t.p50, t.p90, t.p999 = quantile(first, 0.5), quantile(first, 0.9), quantile(first, 0.999)
	if o.Requests != nil {
		t.requests = *o.Requests
	}
	return t, nil
}

// quantile returns a quantile in µs, or 0 if the report lacks it.
func quantile(l result.Latency, q float64) float64 {
	for _, x := range l.Quantiles {
		if x.Q == q {
			return x.MS * 1e3
		}
	}
	return 0
}

// openPeers take part in the latency line. The runs of wrk2 last over ten seconds each.
var openPeers = []struct {
	label, name string
	every       int
}{
	{"tare", "tare", 1},
	{"fortio -uniform", "fortio", 2},
	{"oha --latency-correction", "oha", 2},
	{"vegeta", "vegeta", 2},
	{"wrk2", "wrk2", 6},
}

// latencyLines: the median response time at 5,000 requests/s beside the service
// time by the server's clock, from the kernel's receive stamp of the request to
// the end of the write of its answer.
func latencyLines(ctx context.Context, b *bench) []line {
	got := map[string]map[int]pacedRun{}
	var all []contender
	for _, p := range openPeers {
		if b.generator(p.name) != nil {
			all = append(all, contender{name: p.label, every: p.every})
		}
	}
	dead := b.interleave(ctx, "latency", b.fewer, all, func(c contender, round int) error {
		i := slices.IndexFunc(openPeers, func(p struct {
			label, name string
			every       int
		}) bool {
			return p.label == c.name
		})
		p := profile(b.stamp.url)
		p.Rate, p.Arrivals = 5000, load.Constant
		p.Warmup, p.Measure = 300*time.Millisecond, 1200*time.Millisecond
		t, err := b.paced(ctx, openPeers[i].name, p, b.stamp, nil)
		if err != nil {
			return err
		}
		if got[c.name] == nil {
			got[c.name] = map[int]pacedRun{}
		}
		got[c.name][round] = t
		return nil
	})
	var lines []line
	for _, p := range openPeers {
		l := line{figure: "median response at 5,000 requests/s: " + p.label, verdict: reported}
		m := got[p.label]
		if len(m) == 0 {
			l.verdict, l.compare = absent(dead[p.label]), why(dead[p.label])
			lines = append(lines, l)
			continue
		}
		reported, _ := pairs(m, m, func(t pacedRun) float64 { return t.p50 })
		served, _ := pairs(m, m, func(t pacedRun) float64 { return t.server.After })
		r := stats.PairedDifference(reported, served, confidence)
		l.ours = fmt.Sprintf("%.0f µs", stats.Quantile(reported, 0.5))
		l.peer = fmt.Sprintf("server %.0f µs", stats.Quantile(served, 0.5))
		l.compare, l.beside = fmt.Sprintf("+%s µs, %d rounds", show(r.Interval, 0), r.N), &r.Interval
		if p.name == "tare" {
			l.target, l.verdict = "<= 10 µs above", below(r.Interval, 10)
		}
		lines = append(lines, l)
	}
	return lines
}

// latenessLines: how late requests are sent at 10,000 a second.
func latenessLines(ctx context.Context, b *bench) []line {
	var p50, p99 []float64
	ok := 0
	for round := range b.fewer {
		b.note("lateness: round %d of %d", round+1, b.fewer)
		p := profile(b.stamp.url)
		p.Rate, p.Arrivals = 10000, load.Constant
		p.Warmup, p.Measure = 200*time.Millisecond, 1200*time.Millisecond
		r, _, err := b.report(ctx, p, nil)
		if err != nil {
			return []line{{figure: "send lateness at 10,000 requests/s", verdict: failed, compare: why(err)}}
		}
		p50, p99 = append(p50, r.OwnLatenessUS.P50), append(p99, r.OwnLatenessUS.P99)
		if r.Verdict == "ok" {
			ok++
		}
	}
	figure := func(q string, x []float64, limit float64) line {
		r := stats.MeanInterval(x, confidence)
		return line{figure: "send lateness at 10,000 requests/s, a core to itself, " + q,
			ours: fmt.Sprintf("%.1f µs, best %.1f", stats.Quantile(x, 0.5), slices.Min(x)),
			peer: fmt.Sprintf("%d of %d runs valid", ok, len(x)), compare: "mean " + show(r.Interval, 1) + " µs",
			target: fmt.Sprintf("< %.0f µs", limit), verdict: below(orExact(r, x), limit), beside: &r.Interval}
	}
	return []line{figure("p50", p50, 1), figure("p99", p99, 50)}
}

// orExact is r's interval. Where every value is the same, that value is both its
// ends, since these are limits to be kept and not differences to be found.
func orExact(r stats.Result, x []float64) stats.Interval {
	i := r.Interval
	if r.Why == stats.NoSpread {
		i.Low, i.High = &x[0], &x[0]
	}
	return i
}
