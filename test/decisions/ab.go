package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"

	"github.com/tare-mesh/tare/internal/metric"
)

// The gate of the lines, and the planned blocks.
const (
	gateOfLines = metric.CPUPerRequest + "/data < +2%"
	blocks      = 30
)

// abLine is one truth and the flags of tare ab.
type abLine struct {
	name   string
	detect string
	truth  truth
}

var abLines = []abLine{
	{"at the gate", "", truth{change: 0.02, noise: 0.02}},
	{"at the gate, heavy tails", "", truth{change: 0.02, noise: 0.02, tails: true}},
	{"at the gate, time over after 12 blocks", "", truth{change: 0.02, noise: 0.02, ends: 12}},
	{"at the gate, one trial in ten invalid", "", truth{change: 0.02, noise: 0.02, lost: 0.1}},
	{"at the gate, with --detect 2%", "2%", truth{change: 0.02, noise: 0.02}},
	{"at the gate plus --detect 2%", "2%", truth{change: 0.04, noise: 0.02}},
	{"at the gate plus --detect 2%, heavy tails", "2%", truth{change: 0.04, noise: 0.02, tails: true}},
	{"at the gate plus --detect 2%, time over after 12 blocks", "2%", truth{change: 0.04, noise: 0.04, ends: 12}},
	{"at the gate, autocorrelation 0.6", "", truth{change: 0.02, noise: 0.02, lasts: 0.6}},
	{"others at the gate, 8 % of blocks at +20 %", "", truth{change: 0.02, noise: 0.02, rare: 0.08}},
	{"mean at the gate, 8 % of blocks at +20 %", "", truth{change: 0.004, noise: 0.02, rare: 0.08}},
	{"no change", "", truth{noise: 0.02}},
	{"twice the gate", "", truth{change: 0.04, noise: 0.02}},
	{"no change, noise of 10 %", "", truth{noise: 0.1}},
}

// batch is the number of runs that one tare decides.
const batch = 100

func simulateAB(ctx context.Context, s settings) error {
	fmt.Printf("Gate %s, %d planned blocks, %d runs a line, seed %d; shares in percent ± standard error\n\n", gateOfLines, blocks, s.runs, s.seed)
	fmt.Println("| case | true change | noise of a pair | breached | holds | undecided | pairs, mean |\n|---|---|---|---|---|---|---|")
	for i, line := range abLines {
		if !s.chosen(line.name) {
			continue
		}
		line.truth.blocks = blocks
		var count outcomes
		for done := 0; done < s.runs; done += batch {
			c, err := s.decide(ctx, line, min(batch, s.runs-done), s.seed+uint64(1e6*i+done))
			if err != nil {
				return err
			}
			count.add(c)
		}
		fmt.Printf("| %s | %g %% | %g %% | %s | %s | %s | %.1f |\n", line.name, 100*line.truth.change, 100*line.truth.noise,
			share(count.breached, s.runs), share(count.holds, s.runs), share(count.undecided, s.runs), float64(count.pairs)/float64(s.runs))
	}
	return nil
}

// outcomes are numbers of runs.
type outcomes struct{ breached, holds, undecided, pairs int }

func (o *outcomes) add(more outcomes) {
	o.breached, o.holds, o.undecided, o.pairs = o.breached+more.breached, o.holds+more.holds, o.undecided+more.undecided, o.pairs+more.pairs
}

// code is the exit code of tare for these outcomes.
func (o outcomes) code() int {
	switch {
	case o.breached > 0:
		return 4
	case o.undecided > 0:
		return 5
	}
	return 0
}

// decide writes n runs and has tare decide them: all at once, and the first again by itself.
func (s settings) decide(ctx context.Context, line abLine, n int, seed uint64) (outcomes, error) {
	dir, remove, err := s.scratch()
	if err != nil {
		return outcomes{}, err
	}
	defer remove()
	var runs []string
	for i := range n {
		path := filepath.Join(dir, strconv.Itoa(i))
		if err := line.truth.write(path, seed+uint64(i)); err != nil {
			return outcomes{}, err
		}
		runs = append(runs, path)
	}
	all, err := s.ab(ctx, line, runs)
	if err != nil {
		return outcomes{}, err
	}
	return all, nil
}

// outcomeLine is a line of the table of tare ab --from with several directories.
var outcomeLine = regexp.MustCompile(` {2}(breached|holds|undecided) .* (\d+) +\d+$`)

func (s settings) ab(ctx context.Context, line abLine, runs []string) (outcomes, error) {
	args := []string{"ab", "--gate", gateOfLines, "--from"}
	if line.detect != "" {
		args = append([]string{"ab", "--detect", line.detect}, args[1:]...)
	}
	cmd := exec.CommandContext(ctx, s.tare, append(args, runs...)...)
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil && !errors.As(err, new(*exec.ExitError)) {
		return outcomes{}, err
	}
	var count outcomes
	for lines := bufio.NewScanner(bytes.NewReader(out)); lines.Scan(); {
		m := outcomeLine.FindStringSubmatch(lines.Text())
		if m == nil {
			continue
		}
		pairs, err := strconv.Atoi(m[2])
		if err != nil {
			return outcomes{}, err
		}
		one := map[string]outcomes{"breached": {breached: 1}, "holds": {holds: 1}, "undecided": {undecided: 1}}[m[1]]
		one.pairs = pairs
		count.add(one)
	}
	if n := count.breached + count.holds + count.undecided; n != len(runs) {
		return outcomes{}, fmt.Errorf("%d outcomes of %d runs in\n%s", n, len(runs), out)
	}
	if code := cmd.ProcessState.ExitCode(); code != count.code() {
		return outcomes{}, fmt.Errorf("exit code %d, and the outcomes are %+v", code, count)
	}
	return count, nil
}
