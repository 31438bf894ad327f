//go:build linux

package main

import (
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"syscall"
	"time"
)

// Case is one experiment with its disturbances. It depends on the seed alone.
type Case struct {
	Number     int       `json:"number"`
	Experiment string    `json:"experiment"`
	Trials     int       `json:"trials"`
	Attempts   []Attempt `json:"attempts"` // one more follows, without disturbance
}

// Attempt is one start of tare, disturbed.
type Attempt struct {
	Limit Limit  `json:"limit"`
	Kills []Kill `json:"kills,omitempty"`
}

// Limit is a resource that is scarce during an attempt.
type Limit struct {
	Of   Resource `json:"of,omitempty"`
	Size int64    `json:"size,omitempty"` // bytes, or descriptors
}

// Resource of a [Limit].
type Resource string

// Resources.
const (
	Results     Resource = "results-disk" // file system of the results directory
	Temporary   Resource = "tmp-disk"     // file system of TMPDIR
	FileSize    Resource = "file-size"    // RLIMIT_FSIZE
	Descriptors Resource = "descriptors"  // RLIMIT_NOFILE
)

// Kill is a signal to a process of the run.
type Kill struct {
	After  time.Duration  `json:"after"` // from the start of the attempt
	Victim Victim         `json:"victim"`
	Signal syscall.Signal `json:"signal"`
}

// Victim is the part of a run that gets a signal.
type Victim string

// Victims.
const (
	Tare    Victim = "tare"
	Proxy   Victim = "proxy"
	Service Victim = "service"
	Load    Victim = "load"
)

var parts = []Victim{Proxy, Service, Load}

// perTrial is the approximate time of a short trial, over which the moments of kills spread.
const perTrial = 4 * time.Second

// draw is the random source of one case.
type draw struct{ *rand.Rand }

func newDraw(seed uint64, strand, number int) draw {
	return draw{rand.New(rand.NewPCG(seed, uint64(strand)<<32|uint64(number)))}
}

func pick[T any](d draw, from ...T) T { return from[d.IntN(len(from))] }

// between is uniform in [low, high).
func (d draw) between(low, high time.Duration) time.Duration {
	return low + time.Duration(d.Int64N(int64(high-low)))
}

// kinds are the disturbances of an attempt with their weights.
var kinds = []struct {
	name    string
	weight  int
	attempt func(d draw, expected time.Duration) Attempt
}{
	{"kill tare", 30, func(d draw, expected time.Duration) Attempt {
		return Attempt{Kills: []Kill{{d.between(0, expected), Tare, syscall.SIGKILL}}}
	}},
	{"end tare", 12, func(d draw, expected time.Duration) Attempt {
		return Attempt{Kills: []Kill{{d.between(0, expected), Tare, pick(d, syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP)}}}
	}},
	{"end tare twice", 6, func(d draw, expected time.Duration) Attempt {
		first := d.between(0, expected)
		return Attempt{Kills: []Kill{{first, Tare, syscall.SIGINT}, {first + d.between(0, 2*time.Second), Tare, syscall.SIGINT}}}
	}},
	{"kill parts", 24, func(d draw, expected time.Duration) Attempt {
		var a Attempt
		for range 1 + d.IntN(3) {
			a.Kills = append(a.Kills, Kill{d.between(0, expected), pick(d, parts...), pick(d, syscall.SIGKILL, syscall.SIGKILL, syscall.SIGTERM, syscall.SIGSEGV)})
		}
		return a
	}},
	{"full disk of results", 8, limited(Results, 32<<10, 2<<20)},
	{"full disk of temporary files", 5, limited(Temporary, 4<<10, 128<<10)},
	{"file size", 5, limited(FileSize, 1<<10, 512<<10)},
	{"descriptors", 10, limited(Descriptors, 8, 80)},
}

// limited draws the size of a limit, evenly on a logarithmic scale.
func limited(of Resource, low, high float64) func(draw, time.Duration) Attempt {
	return func(d draw, _ time.Duration) Attempt {
		return Attempt{Limit: Limit{of, int64(low * math.Pow(high/low, d.Float64()))}}
	}
}

func (d draw) attempt(expected time.Duration) Attempt {
	sum := 0
	for _, k := range kinds {
		sum += k.weight
	}
	n := d.IntN(sum)
	for _, k := range kinds {
		if n -= k.weight; n < 0 {
			return k.attempt(d, expected)
		}
	}
	return Attempt{}
}

// newCase draws a case of a strand that ends tare and its parts.
func newCase(seed uint64, strand, number int) Case {
	d := newDraw(seed, strand, number)
	c := Case{Number: number}
	c.Experiment, c.Trials = d.experiment(2 + d.IntN(2))
	for range d.IntN(3) {
		c.Attempts = append(c.Attempts, d.attempt(time.Duration(c.Trials)*perTrial))
	}
	if len(c.Attempts) == 0 && d.IntN(3) > 0 { // one in nine has no disturbance
		c.Attempts = append(c.Attempts, d.attempt(time.Duration(c.Trials)*perTrial))
	}
	return c
}

// experiment draws an experiment file without generator and cluster.
func (d draw) experiment(blocks int) (text string, trials int) {
	meshes := pick(d, []string{"none", "envoy"}, []string{"none", "reference"}, []string{"none", "envoy", "reference-mtls"}, []string{"envoy-plaintext", "envoy"})
	order := pick(d, "random", "balanced", "interleaved")
	topology := pick(d, "echo", "echo", "chain-2")
	control := d.IntN(3) == 0
	var b strings.Builder
	fmt.Fprintf(&b, "apiVersion: tare.dev/v1beta1\nkind: Experiment\nmetadata: {name: soak}\napplication: {topology: %s}\n", topology)
	fmt.Fprintf(&b, "factors: {mesh: [%s], rate: [%d], connections: [%d]}\n", strings.Join(meshes, ", "), 40+d.IntN(160), 1+d.IntN(8))
	fmt.Fprintf(&b, "baseline: {mesh: %s}\norder: %s\ncontrol: %t\nblocks: %d\nseed: %d\nprobe: %t\n", meshes[0], order, control, blocks, d.Uint64N(1<<53), d.IntN(2) == 0)
	fmt.Fprintf(&b, "load: {timeout: 2s}\nphases: {warmup: 500ms, measure: 1s, drain: 200ms}\n")
	if order != "interleaved" && d.IntN(4) == 0 {
		service := map[string]string{"echo": "echo", "chain-2": "back"}[topology]
		fmt.Fprintf(&b, "faults: [{kind: %s, at: 300ms, for: 300ms, target: {service: %s}}]\n", pick(d, "pause", "kill", "partition", "packet-delay, delay: 5ms"), service)
	}
	treatments := len(meshes)
	if control {
		treatments++
	}
	return b.String(), treatments * blocks
}

// pauseOf is the time between two kills in the long run.
const pauseOf = 20 * time.Second

// longCase is one run of many trials, whose parts are killed and which itself is not.
func longCase(seed uint64, strand, blocks int) Case {
	d := newDraw(seed, strand, 0)
	c := Case{Trials: 3 * blocks}
	c.Experiment = fmt.Sprintf(`apiVersion: tare.dev/v1beta1
kind: Experiment
metadata: {name: soak-long}
application: {topology: echo}
factors: {mesh: [none, envoy, reference], rate: [100], connections: [4]}
order: random
blocks: %d
seed: %d
probe: false
load: {timeout: 2s}
phases: {warmup: 300ms, measure: 1s, drain: 200ms}
`, blocks, d.Uint64N(1<<53))
	var a Attempt
	for at := time.Duration(0); at < time.Duration(c.Trials)*2*perTrial; {
		at += time.Duration(d.ExpFloat64() * float64(pauseOf))
		a.Kills = append(a.Kills, Kill{at, pick(d, parts...), syscall.SIGKILL})
	}
	c.Attempts = []Attempt{a}
	return c
}
