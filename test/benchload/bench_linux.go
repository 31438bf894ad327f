package main

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"strconv"
	"time"

	"golang.org/x/sys/unix"

	"github.com/tare-mesh/tare/internal/base/proc"
	"github.com/tare-mesh/tare/internal/load"
	"github.com/tare-mesh/tare/internal/run/generator"
)

// bench is one run of this program.
type bench struct {
	rounds     int // of the two parts whose targets lie closest to the peers
	fewer      int // of the others
	order      *rand.Rand
	tare       generator.Tare
	others     map[string]generator.Generator // those on this machine
	versions   map[string]string
	nginx      *subject // HTTP/1.1, or the own server where there is no nginx
	nginxH2    *subject // nil without nginx
	own, stamp *subject
	log        io.Writer
	priority   string // of client and server in the lines with a rate
}

func (b *bench) note(format string, args ...any) {
	fmt.Fprintf(b.log, "benchload: "+format+"\n", args...)
}

// find locates the other generators.
func (b *bench) find(ctx context.Context) {
	b.others, b.versions = map[string]generator.Generator{}, map[string]string{}
	for _, g := range generator.Others(generator.GeneratorsDir()) {
		found, err := g.Abilities().Find(ctx)
		if err != nil {
			continue
		}
		b.others[g.Name()], b.versions[g.Name()] = g, found.Version
	}
}

// generator by its name, nil where it is not on this machine.
func (b *bench) generator(name string) generator.Generator {
	if name == b.tare.Name() {
		return b.tare
	}
	if g, ok := b.others[name]; ok {
		return g
	}
	return nil
}

// contender is one client in a line, and in how many of the rounds it takes part.
type contender struct {
	name  string
	every int // takes part in one of this many rounds, 1 for in all
	// command against a server's URL.
	command func(url string) (proc.Command, error)
}

// interleave runs every contender once a round, in random order, so that drift
// of the machine affects all of them (Abedi, Brecht, "Conducting
// repeatable experiments in highly variable cloud computing environments", ICPE
// 2017). A contender that fails is left out of later rounds and reported.
func (b *bench) interleave(ctx context.Context, line string, rounds int, all []contender, turn func(contender, int) error) (dead map[string]error) {
	dead = map[string]error{}
	for round := range rounds {
		b.note("%s: round %d of %d", line, round+1, rounds)
		for _, i := range b.order.Perm(len(all)) {
			c := all[i]
			if dead[c.name] != nil || round%c.every != 0 {
				continue
			}
			if err := turn(c, round); err != nil {
				dead[c.name] = err
				b.note("%s: %s: %v", line, c.name, err)
			}
			if ctx.Err() != nil {
				dead[c.name] = ctx.Err()
				return dead
			}
		}
	}
	return dead
}

// pairs are the values of a and b in the rounds in which both took part.
func pairs[T any](a, b map[int]T, of func(T) float64) (x, y []float64) {
	for round := range maxRounds {
		v, inA := a[round]
		w, inB := b[round]
		if inA && inB {
			x, y = append(x, of(v)), append(y, of(w))
		}
	}
	return x, y
}

// finished is a client that ran to its end.
type finished struct {
	out   []byte
	usage proc.Usage
}

// urgent is the real-time priority of clients and servers in timed lines. On a
// busy machine it replaces reserved cores. A nice value would not: with autogroups
// it acts within one process group only.
const urgent = 10

// hurry gives every thread of a process the priority, and with them the threads
// they start. It returns an error without CAP_SYS_NICE.
func hurry(pid int) error {
	for changed := true; changed; {
		changed = false
		tasks, err := os.ReadDir(fmt.Sprintf("/proc/%d/task", pid))
		if err != nil {
			return nil // it has ended
		}
		for _, t := range tasks {
			id, _ := strconv.Atoi(t.Name())
			if now, err := unix.SchedGetAttr(id, 0); err != nil || now.Policy == unix.SCHED_FIFO {
				continue
			}
			attr := unix.SchedAttr{Size: unix.SizeofSchedAttr, Policy: unix.SCHED_FIFO, Priority: urgent}
			if err := unix.SchedSetAttr(id, &attr, 0); errors.Is(err, unix.EPERM) {
				return err
			}
			changed = true
		}
	}
	return nil
}

// complete runs c to its end, meanwhile while, with its output in memory.
func complete(ctx context.Context, c proc.Command, limit time.Duration, while func() error) (f finished, err error) {
	var out bytes.Buffer
	c.Stdout = &out
	p, err := proc.Start(ctx, c)
	if err != nil {
		return f, err
	}
	_ = hurry(p.PID) // refused for the server already, where it is refused
	if while != nil {
		err = while()
	}
	select {
	case <-p.Done():
	case <-time.After(limit):
		err = fmt.Errorf("%s did not end within %v", c, limit)
	case <-ctx.Done():
		err = ctx.Err()
	}
	if err != nil {
		return f, errors.Join(err, p.Stop(context.WithoutCancel(ctx), grace))
	}
	f.out = out.Bytes()
	f.usage, _ = p.Usage()
	return f, p.Wait()
}

// profile is the load that every line varies: 64 connections, one worker, on the client's processor.
func profile(url string) load.Profile {
	return load.Profile{Targets: []string{url}, Connections: 64, Workers: 1, CPUs: []int{clientCPU},
		Timeout: 5 * time.Second, ExpectSize: -1, Drain: time.Second}
}

// report runs tare's engine to its end.
func (b *bench) report(ctx context.Context, p load.Profile, while func() error) (r load.Report, u proc.Usage, err error) {
	c, err := b.tare.Command(p)
	if err != nil {
		return r, u, err
	}
	f, err := complete(ctx, c, p.Warmup+p.Measure+p.Tail+p.Drain+10*time.Second, while)
	if err != nil {
		return r, f.usage, err
	}
	r, err = load.LastReport(f.out)
	return r, f.usage, err
}

func loadAverage() string {
	b, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		return "unknown"
	}
	return string(bytes.Join(bytes.Fields(b)[:3], []byte(" ")))
}

func versionOf(b *bench, name string) string { return cmp.Or(b.versions[name], "not on this machine") }
