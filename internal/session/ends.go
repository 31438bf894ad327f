package session

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/tare-mesh/tare/internal/base/execution"
	"github.com/tare-mesh/tare/internal/base/hint"
	"github.com/tare-mesh/tare/internal/base/lists"
	"github.com/tare-mesh/tare/internal/base/proc"
	"github.com/tare-mesh/tare/internal/experiment"
	"github.com/tare-mesh/tare/internal/experiment/app"
	"github.com/tare-mesh/tare/internal/experiment/plan"
	"github.com/tare-mesh/tare/internal/metric"
	"github.com/tare-mesh/tare/internal/run/generator"
	"github.com/tare-mesh/tare/internal/run/runner"
)

// DefaultEndsGate is the gate of `tare ab` for two programs that end.
const DefaultEndsGate = metric.WallTime + " < +2%"

// Ending describes executions of programs that end, by flags.
type Ending struct {
	Prepare string // command before each execution, as a shell reads it
	Input   string // file on standard input
}

func (e Ending) batch() (*experiment.Batch, error) {
	b := &experiment.Batch{Input: e.Input}
	if e.Prepare == "" {
		return b, nil
	}
	words, err := shellWords("--prepare", e.Prepare)
	b.Prepare = words
	return b, err
}

// ends reports whether the programs end by themselves: none is given a port, and no flag describes requests to them.
func (o AB) ends() bool {
	return o.Rate == "" && o.Path == "" && o.Ready == "" && o.Method == "" && len(o.Headers) == 0 && !slices.ContainsFunc(slices.Concat(o.Commands...), portMark.MatchString)
}

// literals are the words of a program that ends: they have no addresses.
func literals(args []string) ([]string, error) {
	return lists.Map(args, func(word string) string { return strings.ReplaceAll(word, "${", "$${") }), nil
}

// leastSeries is the shortest time for the executions of a program in a block.
const leastSeries = time.Second

// leastTry is the shortest time after which a first execution is killed.
const leastTry = 10 * time.Second

// tryAB executes both programs once, for the time of a block.
func (p *Program) tryAB(ctx context.Context, o *AB) error {
	if len(o.Body) > 0 && o.Input == "" {
		return hint.Usage(errors.New("--data is the standard input of a program that ends, and is not a file"), "write --data @FILE")
	}
	o.measure = leastSeries
	trial := *o
	trial.Gates = []string{DefaultEndsGate} // for the plan, if there is none
	study, err := p.abOfCommands(ctx, trial, experiment.DecideFrom())
	if err != nil {
		return err
	}
	limit := max(leastTry, o.MaxTime/time.Duration(experiment.DecideFrom()*len(study.Plan.Treatments)))
	var readings []execution.Reading
	if o.measure, readings, err = tryOnce(ctx, study, limit, "--max-time"); err != nil || len(o.Gates) > 0 {
		return err
	}
	o.Gates = gatesOf(readings)
	return nil
}

// gatesOf are the gates without --gate: of each Go benchmark that all programs print, or of the wall time.
func gatesOf(readings []execution.Reading) (gates []string) {
	for _, name := range slices.Sorted(maps.Keys(readings[0].Benchmarks)) {
		if !slices.ContainsFunc(readings, func(r execution.Reading) bool { return r.Benchmarks[name] == nil }) {
			gates = append(gates, metric.Of(metric.BenchmarkTime, name)+" < +2%")
		}
	}
	if gates == nil {
		gates = []string{DefaultEndsGate}
	}
	return gates
}

// ends makes the experiment one of executions.
func (w *weighFile) ends(o Weigh) (err error) {
	w.Batch, err = o.batch()
	w.Factors, w.Load = weighFactors{Application: w.Factors.Application}, weighLoad{}
	w.Phases = weighPhases{Measure: experiment.Duration(leastSeries)}
	return err
}

// fitEnding chooses the time of a block and the number of blocks by executing each program once.
func (w *WeighStudy) fitEnding(ctx context.Context) error {
	measure, _, err := tryOnce(ctx, w.Study, w.o.Time, "--time")
	if err != nil {
		return err
	}
	w.file.Phases.Measure = experiment.Duration(measure)
	blocks := int(w.o.Time / (measure * time.Duration(len(w.Study.Plan.Treatments))))
	w.file.Blocks = repeated(min(maxWeighBlocks, max(minWeighBlocks, blocks)))
	return nil
}

// tryOnce executes each program of a study once. It returns the time that the executions of one program in a block need, and the
// readings. A baseline that fails is an error.
func tryOnce(ctx context.Context, s *Study, limit time.Duration, flag string) (measure time.Duration, readings []execution.Reading, err error) {
	s.Program.Sweep()
	if err := generator.CheckAgent(ctx, s.Program.Version); err != nil {
		return 0, nil, err
	}
	var programs []app.Topology
	var of []plan.Treatment
	for _, t := range s.Plan.Treatments {
		if t.Control {
			continue
		}
		topology, err := s.Experiment.TopologyOf(t.Levels)
		if err != nil {
			return 0, nil, err
		}
		programs, of = append(programs, topology), append(of, t)
	}
	series := runner.Executions(s.Experiment, s.Experiment.Seed, programs...)
	series.Time, series.Limit = 0, limit
	begun := time.Now()
	all, err := series.By(ctx, generator.AgentPath(), s.Experiment.Platform.CPUs[string(metric.App)])
	if err != nil {
		return 0, nil, err
	}
	longest, outside := time.Duration(0), time.Since(begun)
	for i, t := range of {
		first, words := all[i][0], command(series.Programs[i])
		readings = append(readings, first)
		wall := time.Duration(first.Wall)
		longest, outside = max(longest, wall), outside-wall
		switch {
		case first.Exit == 0:
		case wall >= limit:
			return 0, nil, hint.New("if it is a server, write {port} where it takes its port, such as `env PORT={port} node server.js`; else raise "+flag,
				"%s did not end within %v", words, limit.Round(time.Second))
		case t.Baseline == "":
			return 0, nil, hint.New("run it by hand, with the same input and directory", "%s failed: %s", words, first.Failure())
		default:
			s.Program.Note(fmt.Sprintf("%s failed: %s", words, first.Failure()))
		}
	}
	const step = 100 * time.Millisecond
	longest += outside / time.Duration(len(of)) // to prepare and to start
	return max(leastSeries, (longest+step-1)/step*step), readings, nil
}

func command(p execution.Program) string {
	return proc.Command{Path: p.Command[0], Args: p.Command[1:]}.String()
}
