package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"slices"
	"time"

	"github.com/tare-mesh/tare/internal/answer/stats"
	"github.com/tare-mesh/tare/internal/base/proc"
	"github.com/tare-mesh/tare/internal/load"
	"github.com/tare-mesh/tare/internal/run/generator"
)

// starters are the generators whose first request is timed, tare's own for comparison.
var starters = []string{"tare", "wrk", "wrk2", "oha", "vegeta", "fortio", "k6"}

// startupLines measures from the start of a generator's process to its first request.
// Without an agreed start time, its measure window begins this much later than the meters'.
func startupLines(ctx context.Context, b *bench) (lines []line) {
	var all []contender
	for _, name := range starters {
		if b.generator(name) != nil {
			all = append(all, contender{name: name, every: 1})
		}
	}
	took := map[string][]float64{}
	dead := b.interleave(ctx, "startup", b.fewer, all, func(c contender, _ int) error {
		d, err := firstRequest(ctx, b.generator(c.name))
		took[c.name] = append(took[c.name], d.Seconds()*1e3)
		return err
	})
	for _, c := range all {
		l := line{figure: "from the start of the process to the first request: " + c.name, verdict: reported}
		if x := took[c.name]; dead[c.name] != nil {
			l.verdict, l.compare = failed, why(dead[c.name])
		} else {
			l.ours, l.beside = fmt.Sprintf("%.0f ms", stats.Quantile(x, 0.5)), point(stats.Quantile(x, 0.5))
			l.compare = fmt.Sprintf("%.0f to %.0f ms, %d rounds", slices.Min(x), slices.Max(x), len(x))
		}
		lines = append(lines, l)
	}
	return lines
}

// firstRequest starts g against a server that waits for one request.
func firstRequest(ctx context.Context, g generator.Generator) (time.Duration, error) {
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		return 0, err
	}
	defer l.Close()
	came := make(chan time.Time, 1)
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go answerAll(c, came)
		}
	}()
	p := profile("http://" + l.Addr().String() + "/")
	p.Connections, p.Warmup, p.Measure, p.Rate, p.Arrivals = 4, time.Second, 2*time.Second, 1000, load.Constant
	if len(generator.Loops(g.Name())) == 1 && generator.Loops(g.Name())[0] == "closed" {
		p.Rate = 0
	}
	c, err := g.Command(p)
	if err != nil {
		return 0, err
	}
	began := time.Now()
	process, err := proc.Start(ctx, c)
	if err != nil {
		return 0, err
	}
	var d time.Duration
	select {
	case at := <-came:
		d = at.Sub(began)
	case <-time.After(10 * time.Second):
		err = errors.New("no request within 10s")
	case <-ctx.Done():
		err = ctx.Err()
	}
	_ = process.Stop(context.WithoutCancel(ctx), grace) // it was not to end by itself
	return d, err
}

// answerAll answers requests on c and sends the time of the first one to came.
func answerAll(c net.Conn, came chan<- time.Time) {
	defer c.Close()
	for r := bufio.NewReader(c); ; {
		if _, err := http.ReadRequest(r); err != nil {
			return
		}
		select {
		case came <- time.Now():
		default:
		}
		if _, err := c.Write(small); err != nil {
			return
		}
	}
}
