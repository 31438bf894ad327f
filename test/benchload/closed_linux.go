package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"

	"github.com/tare-mesh/tare/internal/base/proc"
	"github.com/tare-mesh/tare/internal/load"
	"github.com/tare-mesh/tare/internal/stats"
)

// maxRounds bounds -rounds.
const maxRounds = 200

// The peers of the closed loop over HTTP/1.1. A few rounds suffice for
// peers that cost far more than wrk.
var closedPeers = []struct {
	name  string
	every int
}{{"wrk", 1}, {"oha", 3}, {"fortio", 3}, {"vegeta", 4}}

// closed is a closed loop of the given length for the generator called name.
func (b *bench) closed(name string, change func(*load.Profile)) func(string) (proc.Command, error) {
	g := b.generator(name)
	if g == nil {
		return nil
	}
	return func(url string) (proc.Command, error) {
		p := profile(url)
		p.Measure = length
		if change != nil {
			change(&p)
		}
		c, err := g.Command(p)
		// tare pins its own workers. The rest of its process is to share the core
		// all the same, as the other clients' processes must.
		c.CPUs = strconv.Itoa(clientCPU)
		return c, err
	}
}

func (b *bench) contenders(peers map[string]int, change func(*load.Profile)) (all []contender) {
	for _, name := range append([]string{"tare"}, closedOrder(peers)...) {
		if c := b.closed(name, change); c != nil {
			all = append(all, contender{name, max(1, peers[name]), c})
		}
	}
	return all
}

func closedOrder(peers map[string]int) (names []string) {
	for _, p := range closedPeers {
		if _, in := peers[p.name]; in {
			names = append(names, p.name)
		}
	}
	return names
}

// paces are the rates and costs of a line's clients, by name and round.
type paces struct {
	got  map[string]map[int]pace
	dead map[string]error
	// again is how many windows were measured a second time, still how many were disturbed to the end.
	again, still int
}

// tries is how often a disturbed window is measured at most.
const tries = 3

// closedRounds measures every contender against s in every round.
func (b *bench) closedRounds(ctx context.Context, name string, rounds int, s *subject, all []contender) paces {
	m := paces{got: map[string]map[int]pace{}}
	left := rounds // windows that may be measured again
	m.dead = b.interleave(ctx, name, rounds, all, func(c contender, round int) error {
		var p pace
		for try := range tries {
			cmd, err := c.command(s.url)
			if err != nil {
				return err
			}
			if p, err = closedLoop(ctx, cmd, s); err != nil {
				return err
			}
			if p.taken <= disturbed || try == tries-1 || left <= 0 {
				break
			}
			m.again++
			left--
		}
		if p.taken > disturbed {
			m.still++
		}
		if m.got[c.name] == nil {
			m.got[c.name] = map[int]pace{}
		}
		m.got[c.name][round] = p
		return nil
	})
	if m.again > 0 {
		b.note("%s: other processes took more than %.0f %% of a core in %d windows, which were measured again, and in %d that were kept",
			name, 100*disturbed, m.again, m.still)
	}
	return m
}

func cost(p pace) float64 { return p.cpuUS }
func rate(p pace) float64 { return p.rate }
func busy(p pace) float64 { return p.busy }

// middle is the median over the rounds.
func middle[T any](m map[int]T, of func(T) float64) float64 {
	x, _ := pairs(m, m, of)
	return stats.Quantile(x, 0.5)
}

// cpuLines: client CPU per request, HTTP/1.1, against nginx.
func cpuLines(ctx context.Context, b *bench) []line {
	peers := map[string]int{}
	for _, p := range closedPeers {
		peers[p.name] = p.every
	}
	m := b.closedRounds(ctx, "cpu", b.rounds, b.nginx, b.contenders(peers, nil))
	figure := "client CPU a request, closed loop, 64 connections, HTTP/1.1, " + b.nginx.name
	first := b.costLine(figure, m, "tare", "wrk")
	first.target = "<= 0.92, interval below 1"
	if ratio, _ := m.ratio(cost, "tare", "wrk"); ratio.Known() {
		switch {
		case ratio.Estimate <= 0.92 && *ratio.High < 1:
			first.verdict = met
		case *ratio.Low > 0.92:
			first.verdict = notMet
		default:
			first.verdict = undecided
		}
	}
	lines := []line{first}
	for _, p := range closedPeers[1:] {
		l := b.costLine("  the same, "+p.name+" beside wrk", m, p.name, "wrk")
		beside, _ := m.ratio(cost, p.name, "tare")
		l.ours, l.peer = fmt.Sprintf("%.2f beside tare", beside.Estimate), l.ours
		lines = append(lines, l)
	}
	return lines
}

// enough is the number of undisturbed rounds that suffices. With fewer, all rounds count.
const enough = 6

// ratio compares a with b over the rounds in which neither was disturbed, if
// those are enough. The second result describes the rounds used.
func (m paces) ratio(of func(pace) float64, a, b string) (stats.Result, string) {
	x, y := pairs(m.got[a], m.got[b], of)
	taken, other := pairs(m.got[a], m.got[b], func(p pace) float64 { return p.taken })
	var quietX, quietY []float64
	for i := range x {
		if max(taken[i], other[i]) <= disturbed {
			quietX, quietY = append(quietX, x[i]), append(quietY, y[i])
		}
	}
	n := fmt.Sprintf("%d rounds, %d of them undisturbed", len(x), len(quietX))
	if len(quietX) >= enough && len(quietX) < len(x) {
		n = fmt.Sprintf("the %d undisturbed of %d rounds", len(quietX), len(x))
		x, y = quietX, quietY
	}
	return stats.PairedRatio(x, y, confidence), n
}

// costLine sets a's CPU per request beside b's.
func (b *bench) costLine(figure string, m paces, a, peer string) line {
	l := line{figure: figure, verdict: reported}
	for _, name := range []string{a, peer} {
		if len(m.got[name]) == 0 {
			l.verdict, l.compare = absent(m.dead[name]), name+": "+why(m.dead[name])
			return l
		}
	}
	l.ours = fmt.Sprintf("%.2f µs", middle(m.got[a], cost))
	l.peer = fmt.Sprintf("%s %.2f µs", peer, middle(m.got[peer], cost))
	r, n := m.ratio(cost, a, peer)
	l.compare, l.beside = show(r.Interval, 3)+", "+n, &r.Interval
	return l
}

// absent is the verdict of a line without figures: with an error its program failed, else it is not on this machine.
func absent(err error) string {
	if err == nil {
		return notBuilt
	}
	return failed
}

func why(err error) string {
	if err == nil {
		return "not on this machine"
	}
	text, _, _ := strings.Cut(err.Error(), "\n")
	return text
}

// rateLines: requests per second of one core, against the own server, which is
// the faster side, so that the client's core is the limit.
func rateLines(ctx context.Context, b *bench) []line {
	m := b.closedRounds(ctx, "rate", b.rounds, b.own, b.contenders(map[string]int{"wrk": 1}, nil))
	figure := "requests/s on one core, 64 connections, " + b.own.name
	l := line{figure: figure, target: ">= 1.05", verdict: failed}
	if len(m.got["tare"]) == 0 || len(m.got["wrk"]) == 0 {
		l.compare = why(errors.Join(m.dead["tare"], m.dead["wrk"]))
		return []line{l}
	}
	r, n := m.ratio(rate, "tare", "wrk")
	l.ours = fmt.Sprintf("%.0f/s, %.0f %% of its core", middle(m.got["tare"], rate), 100*middle(m.got["tare"], busy))
	l.peer = fmt.Sprintf("wrk %.0f/s, %.0f %% of its core", middle(m.got["wrk"], rate), 100*middle(m.got["wrk"], busy))
	l.compare, l.beside = show(r.Interval, 3)+", "+n, &r.Interval
	l.verdict = above(r.Interval, 1.05)
	c := b.costLine("  CPU a request in the same rounds", m, "tare", "wrk")
	return []line{l, c}
}

// http2Lines: 64 streams on 4 connections.
func http2Lines(ctx context.Context, b *bench) []line {
	l := line{figure: "client CPU a request, HTTP/2, 64 streams on 4 connections", target: "<= 1.1", verdict: notBuilt}
	h2load, err := exec.LookPath("h2load")
	switch {
	case b.nginxH2 == nil:
		l.compare = "nginx is not on this machine"
		return []line{l}
	case err != nil:
		l.compare = "h2load is not on this machine"
		return []line{l}
	}
	ours := b.closed("tare", streams("http2"))
	if _, err := ours(b.nginxH2.url); err != nil {
		l.compare = why(err)
		return []line{l}
	}
	peer := func(url string) (proc.Command, error) {
		return proc.Command{Path: h2load, CPUs: strconv.Itoa(clientCPU), Args: []string{"-t", "1", "-c", strconv.Itoa(h2Connections),
			"-m", strconv.Itoa(h2Streams), "-D", strconv.Itoa(int(length.Seconds() + 1)), url}}, nil
	}
	m := b.closedRounds(ctx, "http2", b.fewer, b.nginxH2, []contender{{"tare", 1, ours}, {"h2load", 1, peer}})
	l = b.costLine(l.figure, m, "tare", "h2load")
	l.target = "<= 1.1"
	if l.verdict == reported {
		r, _ := m.ratio(cost, "tare", "h2load")
		l.verdict = below(r.Interval, 1.1)
	}
	return []line{l}
}

// 64 requests under way, four connections each with a quarter of them.
const (
	h2Connections = 4
	h2Streams     = 16
)

// grpcLines: unary calls without payload, against a grpc-go server.
func grpcLines(ctx context.Context, b *bench) []line {
	l := line{figure: "client CPU a call, gRPC unary, 64 calls on 4 connections", target: "<= 0.5", verdict: notBuilt}
	ours := b.closed("tare", streams("grpc"))
	if _, err := ours("http://127.0.0.1:1" + grpcPath); err != nil {
		l.compare = why(err)
		return []line{l}
	}
	s, err := startOwn(ctx, "serve-grpc")
	if err != nil {
		l.verdict, l.compare = failed, why(err)
		return []line{l}
	}
	defer s.stop(ctx)
	self, err := os.Executable()
	if err != nil {
		l.verdict, l.compare = failed, why(err)
		return []line{l}
	}
	client := func(url string) (proc.Command, error) {
		return proc.Command{Path: self, Args: []string{"grpc-client", url}, CPUs: strconv.Itoa(clientCPU),
			Env: []string{"GOMAXPROCS=1"}}, nil
	}
	m := b.closedRounds(ctx, "grpc", b.fewer, s, []contender{{"tare", 1, ours}, {"grpc-go", 1, client}})
	l = b.costLine(l.figure, m, "tare", "grpc-go")
	l.target = "<= 0.5"
	if l.verdict == reported {
		r, _ := m.ratio(cost, "tare", "grpc-go")
		l.verdict = below(r.Interval, 0.5)
	}
	return []line{l}
}
