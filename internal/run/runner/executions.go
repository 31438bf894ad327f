package runner

import (
	"context"
	"slices"
	"time"

	"github.com/tare-mesh/tare/internal/base/execution"
	"github.com/tare-mesh/tare/internal/experiment"
	"github.com/tare-mesh/tare/internal/experiment/app"
	"github.com/tare-mesh/tare/internal/experiment/plan"
	"github.com/tare-mesh/tare/internal/metric"
	"github.com/tare-mesh/tare/internal/result"
	"github.com/tare-mesh/tare/internal/run/generator"
)

// executing is the workflow of programs that end: nothing is deployed, and there is no load.
var executing = []phase{
	{name: "measure", joint: (*round).execute},
	{name: "record", do: (*trial).write, always: true},
}

// leastLimit is the shortest time after which an execution is killed.
const leastLimit = time.Minute

// Executions are the executions of programs that end, and of the empty program among them, for about the measure phase of each. The
// order is drawn from a seed.
func Executions(x *experiment.Experiment, seed uint64, programs ...app.Topology) execution.Series {
	n := len(programs)
	measure := time.Duration(x.Phases.Measure)
	s := execution.Series{Prepare: x.Batch.Prepare, Input: x.Batch.Input, Time: time.Duration(n) * measure, Limit: max(leastLimit, 10*measure)}
	for _, t := range programs {
		own := t.Services[0].Own
		command, env := own.Expand(app.Addresses{})
		p := execution.Program{Command: command, Env: env[1:], Dir: own.Dir} // the first variable is a port
		for _, b := range own.Beside {
			command, env := b.Expand(app.Addresses{})
			p.Beside = append(p.Beside, execution.Program{Command: command, Env: env[1:], Dir: own.Dir})
		}
		s.Programs = append(s.Programs, p)
	}
	s.Rows = slices.Collect(slices.Chunk(plan.Owners(seed, n+1, 0, execution.MaxRows), n+1))
	return s
}

// execute executes the programs of a round in turn.
func (rd *round) execute(ctx context.Context) error {
	members, x := rd.alive(), rd.run.Experiment
	var programs []app.Topology
	first := false
	for _, t := range members {
		programs = append(programs, t.setup.topology)
		first = first || !rd.run.executed[t.setup.of.Treatment]
		rd.run.executed[t.setup.of.Treatment] = true
	}
	s := Executions(x, members[0].setup.of.Seed, programs...)
	if first {
		s.Warmup = x.Batch.Warmup
	}
	all, err := s.By(ctx, generator.AgentPath(), x.Platform.CPUs[string(metric.App)])
	for i, t := range members {
		if err == nil {
			t.journal.record.Executions, t.journal.record.Empty = all[i], all[len(members)]
		}
	}
	return err
}

// executed warns of failed executions: they took another time than the others.
func executed(r *result.Record, limits experiment.Validity) []result.Warning {
	failed := r.FailedExecutions()
	if float64(len(failed)) <= limits.ErrorRatio*float64(len(r.Executions)) {
		return nil
	}
	return []result.Warning{{Code: "errors", Message: r.ExecutionFailures(), Hint: "run the program by hand, with the same input and directory", Invalidates: true}}
}
