package main

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os/exec"
	"path/filepath"
	"strconv"

	"github.com/tare-mesh/tare/internal/metric"
)

// compareLine is a between-run deviation and a number of base runs.
type compareLine struct {
	day, change float64
	runs        int
}

func simulateCompare(ctx context.Context, s settings) error {
	const gate = metric.CPUPerRequest + "/data{mesh=envoy-a} < +3%"
	fmt.Printf("Gate %s, 6 blocks, noise of a trial 2 %%, %d runs a line, seed %d; shares in percent ± standard error\n\n", gate, s.runs, s.seed)
	fmt.Println("| between runs | base runs | true change | breached | holds | undecided |\n|---|---|---|---|---|---|")
	for i, line := range []compareLine{
		{0.03, 0, 1}, {0.1, 0, 1},
		{0.03, 0, 3}, {0.05, 0, 3}, {0.1, 0, 3},
		{0.03, 0, 8}, {0.05, 0, 8}, {0.1, 0, 8},
		{0.03, 0.03, 8}, {0.05, 0.03, 8}, {0.1, 0.03, 8},
		{0.03, 0.1, 8}, {0.05, 0.1, 8}, {0.1, 0.1, 8},
	} {
		var count outcomes
		for n := range s.runs {
			outcome, err := s.compare(ctx, line, gate, s.seed+uint64(1e6*i+100*n))
			if err != nil {
				return err
			}
			count.add(outcome)
		}
		fmt.Printf("| %g %% | %d | %g %% | %s | %s | %s |\n", 100*line.day, line.runs, 100*line.change,
			share(count.breached, s.runs), share(count.holds, s.runs), share(count.undecided, s.runs))
	}
	return nil
}

// compare writes base runs and a new one, and has tare compare them.
func (s settings) compare(ctx context.Context, line compareLine, gate string, seed uint64) (o outcomes, err error) {
	dir, remove, err := s.scratch()
	if err != nil {
		return o, err
	}
	defer remove()
	args := []string{"compare", "--gate", gate}
	for i := range line.runs + 1 {
		t := truth{noise: 0.02 * math.Sqrt2, day: line.day, blocks: 6}
		path := filepath.Join(dir, strconv.Itoa(i))
		if i == line.runs {
			t.all = line.change
		}
		if err := t.write(path, seed+uint64(i)); err != nil {
			return o, err
		}
		args = append(args, path)
	}
	cmd := exec.CommandContext(ctx, s.tare, args...)
	if out, err := cmd.CombinedOutput(); err != nil && !errors.As(err, new(*exec.ExitError)) {
		return o, fmt.Errorf("%w\n%s", err, out)
	} else if code := cmd.ProcessState.ExitCode(); code != 0 && code != 4 && code != 5 {
		return o, fmt.Errorf("exit code %d\n%s", code, out)
	}
	switch cmd.ProcessState.ExitCode() {
	case 4:
		o.breached = 1
	case 5:
		o.undecided = 1
	default:
		o.holds = 1
	}
	return o, nil
}
