package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// allowance bounds a wait for processes by the time that the machine gave them. That is wall time, less the time in which one of
// their threads was ready and had no processor, less the share of steal time. A run that hangs has no ready thread, so
// it is found as soon on a busy machine. Wall time alone took slow runs for hung ones.
type allowance struct {
	limit   time.Duration // of given time
	given   time.Duration
	wall    time.Duration
	at      time.Time
	threads map[int]thread
	machine machine
}

// most is the bound of a wait in wall time, in limits. A run that reaches it is ended, and not judged.
const most = 10

// thread is the state of a thread.
type thread struct {
	used, waited time.Duration // on a processor, and ready without one
	ready        bool          // it runs or waits for a processor
}

// machine has the CPU times of this machine, in ticks.
type machine struct{ all, stolen float64 }

func newAllowance(limit time.Duration, strand string) *allowance {
	return &allowance{limit: limit, at: time.Now(), threads: threadsOf(strand), machine: thisMachine()}
}

// look adds the time since the last call.
func (p *allowance) look(now time.Time, threads map[int]thread, m machine) {
	elapsed := now.Sub(p.at)
	var waited time.Duration
	for id, is := range threads {
		was, known := p.threads[id]
		switch {
		case known && is.ready && is.used == was.used && is.waited == was.waited:
			waited = elapsed // the kernel counts a wait at its end
		default:
			waited = max(waited, is.waited-was.waited)
		}
	}
	had := elapsed - min(elapsed, waited)
	if all := m.all - p.machine.all; all > 0 {
		had -= time.Duration(float64(had) * (m.stolen - p.machine.stolen) / all)
	}
	p.given, p.wall = p.given+had, p.wall+elapsed
	p.at, p.threads, p.machine = now, threads, m
}

// share is the part of the wall time that the processes had.
func (p *allowance) share() float64 {
	if p.wall <= 0 {
		return 1
	}
	return float64(p.given) / float64(p.wall)
}

var (
	errHangs   = errors.New("hangs")
	errStarved = errors.New("the machine gave it no CPU")
)

// over is errHangs after the limit, errStarved after most limits of wall time, or nil.
func (p *allowance) over() error {
	switch {
	case p.given > p.limit:
		return errHangs
	case p.wall > most*p.limit:
		return errStarved
	}
	return nil
}

func (p *allowance) String() string {
	return fmt.Sprintf("over %v of %v (limit %v)", p.given.Round(time.Second), p.wall.Round(time.Second), p.limit)
}

// watch follows the processes of a strand until ctx is done. It cancels ctx by the cause when its allowance is used up.
func (p *allowance) watch(ctx context.Context, strand string, cancel context.CancelCauseFunc) {
	tick := time.NewTicker(pace)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case now := <-tick.C:
			p.look(now, threadsOf(strand), thisMachine())
			if err := p.over(); err != nil {
				cancel(err)
				return
			}
		}
	}
}

// threadsOf are the threads of a strand's processes by their number.
func threadsOf(strand string) map[int]thread {
	all := map[int]thread{}
	for _, p := range processesOf(strand) {
		dirs, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/[0-9]*", p.pid))
		for _, dir := range dirs {
			times, err := os.ReadFile(dir + "/schedstat") // ns on a processor, ns in its queue, time slices
			stat, err2 := os.ReadFile(dir + "/stat")
			id, err3 := strconv.Atoi(filepath.Base(dir))
			fields := strings.Fields(string(times))
			if errors.Join(err, err2, err3) != nil || len(fields) < 2 {
				continue // it has ended
			}
			used, _ := strconv.ParseInt(fields[0], 10, 64)
			waited, _ := strconv.ParseInt(fields[1], 10, 64)
			_, state, _ := bytes.Cut(stat[bytes.LastIndexByte(stat, ')')+1:], []byte(" "))
			all[id] = thread{time.Duration(used), time.Duration(waited), bytes.HasPrefix(state, []byte("R"))}
		}
	}
	return all
}

// stealColumn of the first line of /proc/stat.
const stealColumn = 8

func thisMachine() (m machine) {
	b, _ := os.ReadFile("/proc/stat")
	line, _, _ := strings.Cut(string(b), "\n")
	for i, field := range strings.Fields(line) {
		n, _ := strconv.ParseFloat(field, 64)
		if i > 0 && i <= stealColumn { // the guests' columns are parts of others
			m.all += n
		}
		if i == stealColumn {
			m.stolen = n
		}
	}
	return m
}
