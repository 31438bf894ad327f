// Benchdesign compares designs of an experiment: the precision of the same comparisons at equal wall
// time. It runs `tare run` for one block of each design after the other, in random order, so that all
// designs meet the same machine.
package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"time"

	"github.com/tare-mesh/tare/internal/answer/analysis"
)

// suite is an experiment, its designs and the comparisons to print.
type suite struct {
	name        string
	settings    []string
	designs     []design
	comparisons []comparison
}

// design is a way to run the experiment. The first of a suite is the standard that others are compared with.
type design struct {
	name     string
	settings []string
}

// comparison is a difference in the CPU of a request. Of both sides it takes the logarithm of the ratio if
// relative.
type comparison struct {
	name, treatment, baseline, part string
	relative                        bool
}

var suites = []suite{
	{
		name:     "designs",
		settings: []string{"factors={mesh: [none, envoy, envoy-plaintext], rate: [1000], connections: [16]}", "controlAll=true"},
		designs: []design{
			{"one after another", []string{"order=random", "phases={warmup: 1s, measure: 4s, drain: 1s}"}},
			{"interleaved", []string{"order=interleaved", "phases={warmup: 500ms, measure: 2s, drain: 1s}"}},
			{"slices of 2 s", []string{"order=interleaved", "slices={length: 2s}", "phases={warmup: 2s, measure: 4s, drain: 1s}"}},
		},
		comparisons: []comparison{
			{"A against A, data plane", "envoy-control", "envoy", "data", true},
			{"mesh against mesh, data plane", "envoy-plaintext", "envoy", "data", true},
			{"mesh against none, data plane", "envoy", "none", "data", false},
			{"mesh against none, total", "envoy", "none", "total", false},
			{"none against none, total", "none-control", "none", "total", true},
		},
	},
	{
		name: "carry-over",
		settings: []string{"factors={mesh: [reference, reference-50us, reference-100us, reference-500us], rate: [500], connections: [8]}",
			"baseline={mesh: reference}", "validity={rateShortfall: 0.05, lateness: 1s}", "order=interleaved"},
		designs: []design{
			{"100 ms, guard 10 ms", []string{"phases={warmup: 500ms, measure: 2s, drain: 1s}"}},
			{"100 ms, no guard", []string{"slices={length: 100ms, guard: 0s}", "phases={warmup: 500ms, measure: 2s, drain: 1s}"}},
			{"500 ms", []string{"slices={length: 500ms}", "phases={warmup: 500ms, measure: 2s, drain: 1s}"}},
			{"2 s", []string{"slices={length: 2s}", "phases={warmup: 2s, measure: 2s, drain: 1s}"}},
		},
		comparisons: []comparison{
			{"weight of 50 µs", "reference-50us", "reference", "data", false},
			{"weight of 100 µs", "reference-100us", "reference", "data", false},
			{"weight of 500 µs", "reference-500us", "reference", "data", false},
		},
	},
}

// experiment is completed by the settings of suite and design.
const experiment = `apiVersion: tare.dev/v1alpha1
kind: Experiment
metadata: {name: bench-design}
factors: {mesh: [none]}
application: {topology: echo}
probe: false
blocks: 1
`

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := bench(ctx, os.Args[1:], os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "benchdesign:", err)
		os.Exit(1)
	}
}

func bench(ctx context.Context, args []string, out io.Writer) error {
	f := flag.NewFlagSet("benchdesign", flag.ContinueOnError)
	blocks := f.Int("blocks", 12, "blocks of each design")
	only := f.String("only", "designs", "suite: designs or carry-over")
	tare := f.String("tare", "bin/tare", "program to run")
	seed := f.Uint64("seed", uint64(time.Now().UnixNano())%1e6, "seed of the order of designs")
	if err := f.Parse(args); err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "tare-benchdesign-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	file := filepath.Join(dir, "bench-design.yaml")
	if err := os.WriteFile(file, []byte(experiment), 0o600); err != nil {
		return err
	}
	for _, s := range suites {
		if s.name == *only {
			t := newTable(s, *seed)
			err := t.fill(ctx, *tare, file, *blocks)
			return errors.Join(t.write(out), err)
		}
	}
	return fmt.Errorf("there is no suite %q", *only)
}

// fill runs the blocks of all designs. Failed blocks are counted and left out.
func (t *table) fill(ctx context.Context, tare, file string, blocks int) error {
	order := rand.New(rand.NewPCG(t.seed, 0))
	for block := range blocks {
		for _, i := range order.Perm(len(t.suite.designs)) {
			started := time.Now()
			r, err := run(ctx, tare, file, t.seed+uint64(block), append(t.suite.settings, t.suite.designs[i].settings...))
			if ctx.Err() != nil {
				return ctx.Err()
			}
			if err != nil {
				fmt.Fprintf(os.Stderr, "block %d, %s: %v\n", block+1, t.suite.designs[i].name, err)
				t.columns[i].failed++
				continue
			}
			t.columns[i].add(t.suite.comparisons, r, time.Since(started))
			fmt.Fprintf(os.Stderr, "block %d of %d, %s: %.1f s\n", block+1, blocks, t.suite.designs[i].name, time.Since(started).Seconds())
		}
	}
	return nil
}

// run runs one block and returns its report.
func run(ctx context.Context, tare, file string, seed uint64, settings []string) (*analysis.Report, error) {
	dir := filepath.Join(filepath.Dir(file), "run")
	defer os.RemoveAll(dir)
	args := []string{"run", file, "--plain", "--format", "json", "--out", dir, "--set", fmt.Sprintf("seed=%d", seed)}
	for _, s := range settings {
		args = append(args, "--set", s)
	}
	cmd := exec.CommandContext(ctx, tare, args...)
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	err := cmd.Run()
	var r analysis.Report
	if jsonErr := json.Unmarshal(stdout.Bytes(), &r); jsonErr != nil {
		lines := strings.Split(strings.TrimSpace(stderr.String()), "\n")
		return nil, fmt.Errorf("%w: %s", errors.Join(err, jsonErr), lines[len(lines)-1])
	}
	return &r, nil // trials that are invalid have no figures
}
