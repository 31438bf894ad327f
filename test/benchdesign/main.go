// Benchdesign compares designs of an experiment: the precision of the same comparisons at equal wall
// time. It runs `tare run` for one block of each design after the other, in random order, so that all
// designs meet the same machine. Further parts count intervals that miss, time the quickstart, and repeat
// the procedure of a published comparison.
package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"time"

	"github.com/tare-mesh/tare/internal/answer"
)

// part is a bench that runs alone.
type part struct {
	name, doc string
	blocks    int           // default
	lasts     time.Duration // on two processors
	run       func(context.Context, *bench) error
}

var parts = []part{
	{"designs", "half-widths at equal wall time: one trial after another, interleaved in longer and in shorter blocks", 12, 15 * time.Minute, fill("designs")},
	{"planted", "servers with work at once, later, in bursts, without pause, and while idle, beside their CPU alone", 10, 90 * time.Minute, recoverPlanted},
	{"aa", "share of A/A intervals that miss zero, over runs of five blocks", 200, 16 * time.Minute, missed},
}

// bench is one part under way.
type bench struct {
	tare, dir, file string
	blocks          int
	seed            uint64
	runs            int
	cases           *regexp.Regexp // of planted programs, nil for all
	until           time.Time      // after which no block begins
	out             io.Writer
}

// experimentText is completed by settings.
const experimentText = `apiVersion: tare.dev/v1beta1
kind: Experiment
metadata: {name: bench-design}
factors: {mesh: [none]}
application: {topology: echo}
blocks: 1
`

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := start(ctx, os.Args[1:], os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "benchdesign:", err)
		os.Exit(1)
	}
}

func start(ctx context.Context, args []string, out io.Writer) error {
	if len(args) > 0 && args[0] == serveCommand {
		return serve(args[1:])
	}
	f := flag.NewFlagSet("benchdesign", flag.ContinueOnError)
	blocks := f.Int("blocks", 0, "blocks of each design; 0: the part's default")
	only := f.String("only", parts[0].name, "part to run: "+strings.Join(names(), ", "))
	tare := f.String("tare", "bin/tare", "program to run")
	cases := f.String("cases", "", "regular expression of the planted programs to run")
	limit := f.Duration("time", 0, "begin no block that would end later; 0: the part's own time")
	seed := f.Uint64("seed", uint64(time.Now().UnixNano())%1e6, "seed of the order of designs")
	keep := f.Bool("keep", false, "keep the results directories")
	list := f.Bool("list", false, "list the parts with their time on two processors")
	if err := f.Parse(args); err != nil {
		return err
	}
	if *list {
		for _, p := range parts {
			fmt.Fprintf(out, "%-11s %4.0f min  %3d blocks  %s\n", p.name, p.lasts.Minutes(), p.blocks, p.doc)
		}
		return nil
	}
	for _, p := range parts {
		if p.name != *only {
			continue
		}
		dir, err := os.MkdirTemp("", "tare-benchdesign-")
		if err != nil {
			return err
		}
		if *keep {
			fmt.Fprintln(os.Stderr, "results directories:", dir)
		} else {
			defer os.RemoveAll(dir)
		}
		b := &bench{tare: *tare, dir: dir, file: filepath.Join(dir, "bench-design.yaml"), blocks: p.blocks, seed: *seed, until: time.Now().Add(*limit), out: out}
		if *limit == 0 {
			b.until = time.Now().Add(p.lasts)
		}
		if *cases != "" {
			if b.cases, err = regexp.Compile(*cases); err != nil {
				return err
			}
		}
		if *blocks > 0 {
			b.blocks = *blocks
		}
		if err := os.WriteFile(b.file, []byte(experimentText), 0o600); err != nil {
			return err
		}
		fmt.Fprintf(out, "Part `%s`, %s, %d processors, load average %s, seed %d.\n\n", p.name, time.Now().UTC().Format("2006-01-02 15:04 UTC"), runtime.NumCPU(), loadAverage(), *seed)
		return p.run(ctx, b)
	}
	return fmt.Errorf("there is no part %q: %s", *only, strings.Join(names(), ", "))
}

func names() (all []string) {
	for _, p := range parts {
		all = append(all, p.name)
	}
	return all
}

// late reports whether no block may begin any more.
func (b *bench) late() bool { return time.Now().After(b.until) }

// loadAverage is the load average of the last minute: a machine with other work is not a quiet one.
func loadAverage() string {
	text, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		return "unknown"
	}
	first, _, _ := strings.Cut(string(text), " ")
	return first
}

// run runs an experiment and returns its report and its time.
func (b *bench) run(ctx context.Context, file string, settings ...string) (*answer.Report, time.Duration, error) {
	b.runs++
	dir := filepath.Join(b.dir, fmt.Sprintf("run%d", b.runs))
	args := []string{"run", file, "--plain", "--format", "json", "--out", dir}
	for _, s := range settings {
		args = append(args, "--set", s)
	}
	cmd := exec.CommandContext(ctx, b.tare, args...)
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	started := time.Now()
	err := cmd.Run()
	lasted := time.Since(started)
	if ctx.Err() != nil {
		return nil, lasted, ctx.Err()
	}
	var r answer.Report
	if jsonErr := json.Unmarshal(stdout.Bytes(), &r); jsonErr != nil {
		lines := strings.Split(strings.TrimSpace(stderr.String()), "\n")
		return nil, lasted, fmt.Errorf("%w: %s", errors.Join(err, jsonErr), lines[len(lines)-1])
	}
	return &r, lasted, nil // trials that are invalid have no figures
}

// row writes a row of a Markdown table.
func row(w io.Writer, cells ...string) { fmt.Fprintf(w, "| %s |\n", strings.Join(cells, " | ")) }

// heads writes the first two rows of a Markdown table.
func heads(w io.Writer, cells ...string) {
	row(w, cells...)
	fmt.Fprintf(w, "|%s\n", strings.Repeat("---|", len(cells)))
}
