package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/tare-mesh/tare/internal/answer"
	"github.com/tare-mesh/tare/internal/load"
	"github.com/tare-mesh/tare/internal/load/engine"
	"github.com/tare-mesh/tare/internal/stats"
)

// planted is a program beside a plain one. Its CPU clock, alone under the same load, has what it adds to a request.
type planted struct {
	name   string
	server foreign // nil for this program
	levels []level
	tail   time.Duration // after the load, in which work of requests ends
	warmup time.Duration // before it is measured alone, at warmupRate, 0 for a second at plantedRate
}

// level is a flag of the program. Its value is multiplied by a factor drawn at random.
type level struct {
	flag  string
	value float64
}

var plantedCases = []planted{
	{name: "at once", levels: []level{{"request", 500e-6}}},
	{name: "steady", levels: []level{{"steady", 0.01}}},
	{name: "steady", levels: []level{{"steady", 0.05}}},
	{name: "steady", levels: []level{{"steady", 0.2}}},
	{name: "bursts", levels: []level{{"burst", 1e-3}, {"every", 0.1}}},
	{name: "bursts", levels: []level{{"burst", 50e-3}, {"every", 1}}},
	{name: "bursts", levels: []level{{"burst", 50e-3}, {"every", 2.3}}},
	{name: "bursts", levels: []level{{"burst", 50e-3}, {"every", 5}}},
	{name: "bursts", levels: []level{{"burst", 1}, {"every", 11}}},
	{name: "bursts", levels: []level{{"burst", 1}, {"every", 30}}},
	{name: "polling", levels: []level{{"burst", 0.5e-3}, {"every", 0.5}}},
	{name: "idle only", levels: []level{{"idle", 0.25}, {"after", 0.23}}},
	{name: "idle only", levels: []level{{"idle", 0.25}, {"after", 0.4}}},
	{name: "idle only", levels: []level{{"idle", 0.25}, {"after", 2}}},
	{name: "deferred", levels: []level{{"deferred", 500e-6}, {"delay", 5e-3}}, tail: time.Second},
	{name: "deferred", levels: []level{{"deferred", 500e-6}, {"delay", 0.3}}, tail: 2 * time.Second},
	{name: "deferred", levels: []level{{"deferred", 500e-6}, {"delay", 3}}, tail: 7 * time.Second},
	{name: "deferred", levels: []level{{"deferred", 500e-6}, {"delay", 10}}, tail: 20 * time.Second},
	{name: "flushed", levels: []level{{"deferred", 500e-6}, {"flush", 5}}, tail: 10 * time.Second},
	{name: "garbage of Go", levels: []level{{"garbage", 512}}},
	{name: "garbage of Node", server: node, levels: []level{{"garbage", 512}}, warmup: 3 * time.Second},
	{name: "garbage of Java", server: java, levels: []level{{"garbage", 512}}, warmup: 13 * time.Second},
	{name: "statistics of Envoy", server: envoy, levels: []level{{"clusters", 1500}, {"flush", 5}}},
}

// aloneTime is the least time of load of a program alone.
var aloneTime = 3 * time.Second

const (
	plantedRate        = 200  // requests/s
	warmupRate         = 1000 // requests/s
	plantedConnections = 4
	alonePairs         = 4    // of both programs, half of them before the run and half after it
	levelRange         = 0.4  // of the logarithm of a level, on both sides
	offSilently        = 0.05 // of the truth: by more than that an estimate must not be off outside its interval
)

// draw multiplies all levels by random factors.
func (p planted) draw(r *rand.Rand) planted {
	p.levels = slices.Clone(p.levels)
	for i := range p.levels {
		p.levels[i].value *= math.Exp(levelRange * (2*r.Float64() - 1))
	}
	return p
}

// command is the program that listens to an address, the plain one without levels. A foreign one has files in dir.
func (p planted) command(dir string, levels []level, address string) ([]string, error) {
	if p.server != nil {
		return p.server(dir, levels, address)
	}
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	return append([]string{self, serveCommand, "-listen", address}, flags(levels)...), nil
}

// flags are levels as arguments.
func flags(levels []level) (args []string) {
	for _, l := range levels {
		value := fmt.Sprintf("%.4g", l.value)
		if l.flag == "garbage" {
			value = fmt.Sprintf("%.0f", l.value)
		}
		args = append(args, "-"+l.flag, value)
	}
	return args
}

func (p planted) words() string {
	var all []string
	for _, l := range p.levels {
		all = append(all, fmt.Sprintf("%s %.3g", l.flag, l.value))
	}
	return p.name + ": " + strings.Join(all, ", ")
}

// longest is the longest period of a level, s.
func (p planted) longest() (s float64) {
	for _, l := range p.levels {
		if l.flag == "every" || l.flag == "flush" {
			s = max(s, l.value)
		}
	}
	return s
}

// recoverPlanted compares estimates with planted costs.
func recoverPlanted(ctx context.Context, b *bench) error {
	r := rand.New(rand.NewPCG(b.seed, 1))
	heads(b.out, "program, levels in s, cores, KiB", "blocks", "load average", "alone", "tare", "95 % interval", "off", "held", "of halves of the blocks")
	for _, kind := range plantedCases {
		c := kind.draw(r) // also if left out: a seed has its levels
		if b.cases != nil && !b.cases.MatchString(kind.words()) {
			continue
		}
		if b.late() {
			fmt.Fprintln(os.Stderr, "no time is left")
			break
		}
		if err := b.recover(ctx, c); err != nil {
			return err
		}
	}
	return nil
}

func (b *bench) recover(ctx context.Context, c planted) error {
	truth := alone{of: c, dir: b.dir}
	if err := truth.measure(ctx, c.pairs()); err != nil {
		return err
	}
	file := filepath.Join(b.dir, "planted.yaml")
	if err := os.WriteFile(file, []byte(plantedText), 0o600); err != nil {
		return err
	}
	at := loadAverage()
	settings, err := c.settings(b)
	if err != nil {
		return err
	}
	report, lasted, err := b.run(ctx, file, settings...)
	if ctx.Err() != nil {
		return ctx.Err()
	}
	at += " to " + loadAverage()
	if err := errors.Join(err, truth.measure(ctx, c.pairs())); err != nil {
		return err
	}
	fmt.Fprintf(os.Stderr, "%s: %.0f s\n", c.words(), lasted.Seconds())
	cells := append([]string{c.words(), fmt.Sprint(b.blocks), at}, judge(report, truth.added(), truth.plain())...)
	halves, err := b.halves(report.Directory, truth.added())
	row(b.out, append(cells, halves)...)
	return err
}

// plantedText is [experimentText] for two applications.
var plantedText = strings.Replace(experimentText, "application: {topology: echo}\n", "", 1)

// pairs are the measurements of both programs alone before the run, and after it.
func (p planted) pairs() int {
	if p.tail > 2*time.Second {
		return 2
	}
	return 4
}

// settings complete it.
func (p planted) settings(b *bench) ([]string, error) {
	commands := make([]string, 2)
	for i, levels := range [][]level{nil, p.levels} {
		command, err := p.command(b.dir, levels, "127.0.0.1:${port}")
		if err != nil {
			return nil, err
		}
		text, err := json.Marshal(command)
		if err != nil {
			return nil, err
		}
		commands[i] = string(text)
	}
	return []string{
		fmt.Sprintf("applications={plain: {command: %s}, planted: {command: %s}}", commands[0], commands[1]),
		fmt.Sprintf("factors={application: [plain, planted], mesh: [none], rate: [%d], connections: [%d]}", plantedRate, plantedConnections),
		"baseline={application: plain}", "load.arrivals=constant", "validity={lateness: 1s, rateShortfall: 0.2, errorRatio: 0.05}",
		"phases={warmup: 500ms, measure: 3s, drain: 500ms}", "order=interleaved", fmt.Sprintf("seed=%d", b.seed), fmt.Sprintf("blocks=%d", b.blocks),
	}, nil
}

// judge are the cells of an estimate beside the truth: µs of CPU a request.
func judge(r *answer.Report, truth stats.Result, plain float64) []string {
	cells := []string{fmt.Sprintf("%.0f ±%.0f µs", truth.Estimate, half(truth))}
	d, withheld := estimated(r)
	if d == nil {
		return append(cells, withheld, "", "")
	}
	of := math.Abs(truth.Estimate)
	if of < plain*offSilently { // no work under load
		of = plain
	}
	off := (d.Estimate - truth.Estimate) / of
	return append(cells, fmt.Sprintf("%+.0f µs", d.Estimate), fmt.Sprintf("%+.0f to %+.0f", *d.Low, *d.High), fmt.Sprintf("%+.1f %%", 100*off), yes(holds(d, truth)))
}

// half is half the width of an interval, 0 without one.
func half(r stats.Result) float64 {
	if !r.Known() {
		return 0
	}
	return (*r.High - *r.Low) / 2
}

// estimated is the difference between the two programs in a report, or why there is none.
func estimated(r *answer.Report) (difference *stats.Interval, withheld string) {
	for _, c := range r.Comparisons {
		if c.Metric == appCPU && !c.Control && c.Difference != nil && c.Difference.Known() {
			return c.Difference, ""
		}
	}
	for _, w := range r.Warnings {
		if w.Withholds {
			return nil, "withheld | " + w.Code
		}
	}
	return nil, "none | "
}

// holds reports whether the interval of a difference holds the truth: each error alone is smaller than both together.
func holds(d *stats.Interval, truth stats.Result) bool {
	error := half(truth)
	return truth.Estimate >= d.Estimate-math.Hypot(d.Estimate-*d.Low, error) && truth.Estimate <= d.Estimate+math.Hypot(*d.High-d.Estimate, error)
}

// alone are costs of a program and of the plain one, µs a request, without tare.
type alone struct {
	of    planted
	dir   string       // of foreign programs' files
	costs [2][]float64 // plain, planted
}

func (a *alone) measure(ctx context.Context, pairs int) error {
	for range pairs {
		for i, levels := range [][]level{nil, a.of.levels} {
			cost, err := a.cost(ctx, levels)
			if err != nil {
				return err
			}
			a.costs[i] = append(a.costs[i], cost)
		}
	}
	return nil
}

func (a *alone) added() stats.Result {
	var all []float64
	for i, cost := range a.costs[1] {
		all = append(all, cost-a.costs[0][i])
	}
	return stats.MeanInterval(all, confidence)
}

func (a *alone) plain() float64 { return stats.Mean(a.costs[0]) }

// cost runs a program under evenly spaced requests, and returns its CPU by its own clock, µs a request.
func (a *alone) cost(ctx context.Context, levels []level) (float64, error) {
	p := a.of
	free, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return 0, err
	}
	address := free.Addr().String()
	free.Close()
	args, err := p.command(a.dir, levels, address)
	if err != nil {
		return 0, err
	}
	server := exec.CommandContext(ctx, args[0], args[1:]...)
	if err := server.Start(); err != nil {
		return 0, err
	}
	defer func() {
		_ = server.Process.Kill()
		_ = server.Wait()
	}()
	for began := time.Now(); ; time.Sleep(20 * time.Millisecond) {
		if c, err := net.Dial("tcp", address); err == nil {
			c.Close()
			break
		} else if time.Since(began) > 10*time.Second {
			return 0, err
		}
	}
	clock := int32(^server.Process.Pid)<<3 | 2 // the CPU of the process, as of clock_getcpuclockid(3)
	lasts, warmup, rate := aloneTime, time.Second, plantedRate
	if p.warmup > 0 {
		warmup, rate = p.warmup, warmupRate
	}
	if s := p.longest(); len(levels) > 0 && s > 0 { // whole periods
		lasts = duration(s * math.Ceil(aloneTime.Seconds()/s))
	}
	if err := send(ctx, address, rate, warmup); err != nil {
		return 0, err
	}
	if p.tail > 0 {
		time.Sleep(p.tail)
	}
	before := cpuOf(clock)
	if err := send(ctx, address, plantedRate, lasts); err != nil {
		return 0, err
	}
	if p.tail > 0 {
		time.Sleep(p.tail)
	}
	return float64(cpuOf(clock)-before) / 1e3 / (plantedRate * lasts.Seconds()), ctx.Err()
}

// send sends evenly spaced requests over a few connections, by the engine of experiments.
func send(ctx context.Context, address string, rate int, lasts time.Duration) error {
	began := time.Now()
	report, err := engine.Run(ctx, load.Profile{Targets: []string{"http://" + address + "/"}, Rate: float64(rate), Connections: plantedConnections,
		Arrivals: load.Constant, Measure: lasts, Drain: time.Second, ExpectSize: -1}, nil)
	if err == nil && report.Statuses["200"] != report.Requests {
		err = fmt.Errorf("%d of %d requests are answered", report.Statuses["200"], report.Requests)
	}
	time.Sleep(time.Until(began.Add(lasts)))
	return err
}
