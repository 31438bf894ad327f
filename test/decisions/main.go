// Command decisions shows the errors of decisions through the program tare itself. It counts how often `tare ab` breaches or holds
// a gate falsely, how often `tare compare` alarms falsely, and how often git bisect finds a planted weight.
//
//	decisions ab                 runs of A, A again and B, decided by tare ab --from
//	decisions compare            runs of several days, decided by tare compare --gate
//	decisions bisect             repositories with a planted commit, for git bisect run tare ab --bisect
//	decisions bisect -real       the same with real proxies on this machine
//
// The runs of the first three are results directories with synthetic measurements of known truth, written by the
// result store: tare reads, checks and decides them as any other. `make decisions` calls it.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"time"
)

// settings are the flags of every mode.
type settings struct {
	tare string // program
	runs int    // of each line
	seed uint64
	dir  string // for results, empty for the directory for temporary files
	only string // lines whose name contains it
	real bool
	mesh string
	// maxTime ends a step of a real bisection undecided. 0 means that of the mesh.
	maxTime time.Duration
	rate    string        // of a real bisection, empty for that of the mesh
	measure time.Duration // of each treatment in a block of a real bisection, 0 for that of the mesh
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, os.Args[1:]); err != nil {
		var exit *exitCode
		if errors.As(err, &exit) {
			os.Exit(exit.code)
		}
		fmt.Fprintln(os.Stderr, "decisions:", err)
		os.Exit(1)
	}
}

// exitCode ends the program with the exit code of another.
type exitCode struct{ code int }

func (e *exitCode) Error() string { return fmt.Sprintf("exit code %d", e.code) }

func run(ctx context.Context, args []string) error {
	modes := map[string]func(context.Context, settings) error{
		"ab": simulateAB, "compare": simulateCompare, "bisect": bisect, "step": step,
	}
	if len(args) == 0 || modes[args[0]] == nil {
		return errors.New("usage: decisions ab|compare|bisect [flags]")
	}
	s := settings{tare: "bin/tare", runs: 1000, seed: 15}
	if args[0] == "bisect" {
		s.runs = 20
	}
	f := flag.NewFlagSet(args[0], flag.ContinueOnError)
	f.StringVar(&s.tare, "tare", s.tare, "program `tare`")
	f.IntVar(&s.runs, "runs", s.runs, "runs of each line, or repositories")
	f.Uint64Var(&s.seed, "seed", s.seed, "seed of the synthetic measurements")
	f.StringVar(&s.dir, "dir", "", "`directory` for results while they are needed; memory is fastest: /dev/shm")
	f.StringVar(&s.only, "only", "", "only lines whose `name` contains this")
	f.BoolVar(&s.real, "real", false, "bisect with real proxies")
	f.StringVar(&s.mesh, "mesh", "reference", "`mesh` of a real bisection: reference or envoy")
	f.DurationVar(&s.maxTime, "max-time", 0, "`time` of a step of a real bisection; default: 100 s with reference, 3 min with envoy")
	f.StringVar(&s.rate, "rate", "", "`requests` per second of a real bisection; default: 300 with reference, 300 with envoy")
	f.DurationVar(&s.measure, "measure", 0, "measured `time` of a treatment in each block of a real bisection; default: 2 s with reference, 1.5 s with envoy")
	if err := f.Parse(args[1:]); err != nil {
		return err
	}
	tare, err := filepath.Abs(s.tare)
	if err != nil {
		return err
	}
	s.tare = tare
	return modes[args[0]](ctx, s)
}
