// Command benchload measures tare's load engine beside other load generators.
// One run on one machine has randomised rounds with every client in each, and
// 95 % intervals over the rounds. docs/explanation/benchmarks.md describes each line.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"os/signal"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/tare-mesh/tare/internal/run/generator"
	"github.com/tare-mesh/tare/internal/run/meter"
)

// fewerRounds suffice for all parts but cpu and rate.
const fewerRounds = 8

// parts of the table, in its order.
var parts = []struct {
	name string
	run  func(context.Context, *bench) []line
}{
	{"cpu", cpuLines}, {"rate", rateLines}, {"http2", http2Lines}, {"grpc", grpcLines}, {"latency", latencyLines},
	{"lateness", latenessLines},
}

func main() {
	if err := start(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "benchload:", err)
		os.Exit(1)
	}
}

// start is the program itself, or one of the processes it starts.
func start(args []string) error {
	switch {
	case len(args) > 0 && args[0] == "serve":
		return serve(len(args) > 1 && args[1] == "stamp")
	case len(args) > 0 && args[0] == "serve-grpc":
		return serveGRPC()
	case len(args) == 2 && args[0] == "grpc-client":
		return grpcClient(args[1])
	}
	// Only here: a server is to end at a signal.
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	f := flag.NewFlagSet("benchload", flag.ExitOnError)
	names := make([]string, len(parts))
	for i, p := range parts {
		names[i] = p.name
	}
	rounds := f.Int("rounds", 12, fmt.Sprintf("rounds of cpu and rate, from 3 to %d; the other parts have at most %d", maxRounds, fewerRounds))
	only := f.String("only", strings.Join(names, ","), "the parts to run")
	seed := f.Uint64("seed", uint64(time.Now().UnixNano()), "of the order of turns")
	agent := f.String("agent", generator.AgentPath(), "the tare-agent program")
	_ = f.Parse(args) // ExitOnError
	if *rounds < 3 || *rounds > maxRounds {
		return fmt.Errorf("-rounds %d is not between 3 and %d", *rounds, maxRounds)
	}
	if runtime.NumCPU() < 2 {
		return errors.New("it needs two processors, one for the server and one for the client")
	}
	chosen := strings.Split(*only, ",")
	for _, name := range chosen {
		if !slices.Contains(names, name) {
			return fmt.Errorf("-only %s: the parts are %s", name, strings.Join(names, ", "))
		}
	}
	b := &bench{rounds: *rounds, fewer: min(*rounds, fewerRounds), order: rand.New(rand.NewPCG(*seed, 0)), tare: generator.Tare{Agent: *agent}, log: os.Stderr}
	return b.table(ctx, chosen, *seed)
}

// table runs the chosen parts and prints them.
func (b *bench) table(ctx context.Context, chosen []string, seed uint64) error {
	b.find(ctx)
	if err := b.startServers(ctx); err != nil {
		return err
	}
	defer b.stopServers()
	from, began := loadAverage(), time.Now()
	var lines []line
	var took []string
	for _, p := range parts {
		if slices.Contains(chosen, p.name) && ctx.Err() == nil {
			start := time.Now()
			lines = append(lines, p.run(ctx, b)...)
			took = append(took, fmt.Sprintf("%s %v", p.name, time.Since(start).Round(time.Second)))
		}
	}
	fmt.Printf("%d rounds, seed %d, %v; server on cpu %d, client on cpu %d of %d; load average %s before, %s after\n",
		b.rounds, seed, time.Since(began).Round(time.Second), serverCPU, clientCPU, runtime.NumCPU(), from, loadAverage())
	fmt.Println("parts:", strings.Join(took, ", "))
	fmt.Println(machine())
	fmt.Printf("priority of client and server: normal in closed loops, %s at a rate\n", b.priority)
	fmt.Printf("servers: %s, own server; clients:", b.nginx.name)
	for _, name := range []string{"wrk", "wrk2", "oha", "fortio", "vegeta"} {
		fmt.Printf(" %s %s;", name, versionOf(b, name))
	}
	fmt.Print("\n\n")
	write(os.Stdout, lines)
	return ctx.Err()
}

func (b *bench) startServers(ctx context.Context) (err error) {
	if b.own, err = startOwn(ctx, "serve"); err != nil {
		return err
	}
	if b.stamp, err = startOwn(ctx, "serve", "stamp"); err != nil {
		return err
	}
	b.priority = fmt.Sprintf("SCHED_FIFO %d", urgent)
	if err := hurry(b.stamp.process.PID); err != nil {
		b.priority = fmt.Sprintf("normal (%v)", err)
	}
	if b.nginx, b.nginxH2, err = startNginx(ctx); err != nil {
		b.note("no nginx, the own server takes its place: %v", err)
		b.nginx, b.nginxH2 = b.own, nil
	}
	return nil
}

func (b *bench) stopServers() {
	for _, s := range []*subject{b.own, b.stamp, b.nginx} {
		s.stop(context.Background())
	}
}

// machine names the processor and the kernel.
func machine() string {
	host := meter.Host()
	return fmt.Sprintf("%d × %s, Linux %s, %s", host.CPUs, host.CPUModel, host.Kernel, runtime.Version())
}
