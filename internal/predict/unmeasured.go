package predict

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/tare-mesh/tare/internal/base/hint"
	"github.com/tare-mesh/tare/internal/base/lists"
	"github.com/tare-mesh/tare/internal/base/printable"
	"github.com/tare-mesh/tare/internal/compare"
	"github.com/tare-mesh/tare/internal/experiment"
	"github.com/tare-mesh/tare/internal/experiment/app"
)

// OutsideError is a level that the run of a curve did not measure.
type OutsideError struct {
	Axis Axis
	At   float64
	Set  []string // changes of the experiment that measure it, nil if unknown
}

func (e *OutsideError) Error() string { return e.Axis.outside(e.At, e.At) }

// Changes are the changes of the experiment that measure the level, nil if unknown.
func (e *OutsideError) Changes() []string { return e.Set }

// Hint is the changes.
func (e *OutsideError) Hint() string {
	if e.Set == nil {
		return fmt.Sprintf("measure a range of %s that has it", e.Axis.Name)
	}
	return measureHint(e.Set)
}

// outside is the message about levels from low to high, which are not in the measured range.
func (a Axis) outside(low, high float64) string {
	if a.Name == experiment.RateFactor {
		return fmt.Sprintf("%s requests/s are outside the measured range of %s", a.span(low, high), a.span(a.From, a.To))
	}
	return fmt.Sprintf("%s %s was not measured, only %s", a.Name, a.span(low, high), a.span(a.From, a.To))
}

func (a Axis) span(low, high float64) string {
	if low == high || math.IsNaN(low) {
		return a.words(low)
	}
	return a.words(low) + " to " + a.words(high)
}

// words are a level, with the unit of sizes.
func (a Axis) words(level float64) string {
	if strings.HasSuffix(a.Name, "Size") && level == math.Trunc(level) {
		return app.Size(level).String()
	}
	return fmt.Sprintf("%g", level)
}

// measuring returns the changes of the run's experiment that measure a level outside its range, nil if unknown: a level of a
// factor, or a variant of the mesh with the option. A curve has the levels of one proxy, the experiment the levels of all.
func (g *group) measuring(run *compare.Run, e *OutsideError) []string {
	var levels []float64
	for _, t := range run.Plan.Treatments {
		level, number := t.Factors[e.Axis.Name].(float64)
		if l, ok := experiment.LevelOf(e.Axis.Name, t.Levels); !number && ok {
			level, number = l.Value.(float64)
		}
		if number && !slices.Contains(levels, level) {
			levels = append(levels, level)
		}
	}
	if math.IsNaN(e.At) || math.IsInf(e.At, 0) {
		return nil
	}
	if levels == nil {
		return g.variant(run, e)
	}
	slices.Sort(levels)
	wanted := e.At
	if e.Axis.To > 0 {
		wanted *= levels[len(levels)-1] / e.Axis.To
	}
	switch { // rounded away from the measured ones, which have to reach it
	case wanted > levels[len(levels)-1]:
		wanted = math.Ceil(wanted)
	case wanted >= 1:
		wanted = math.Floor(wanted)
	}
	levels = append(levels, wanted)
	slices.Sort(levels)
	var words []string
	for _, level := range slices.Compact(levels) {
		words = append(words, e.Axis.words(level))
	}
	return []string{fmt.Sprintf("factors.%s=[%s]", e.Axis.Name, strings.Join(words, ", "))}
}

// variant returns the changes that add a variant of the group's mesh with an option, nil if the mesh does not have it.
func (g *group) variant(run *compare.Run, e *OutsideError) []string {
	if _, options, _ := run.OptionsOf(g.level); options[e.Axis.Name] == "" {
		return nil
	}
	name := fmt.Sprintf("%s-%s-%g", g.mesh, e.Axis.Name, e.At)
	var meshes []string
	for _, t := range run.Plan.Treatments {
		if level := fmt.Sprint(t.Factors[experiment.MeshFactor]); !slices.Contains(meshes, level) {
			meshes = append(meshes, level)
		}
	}
	return []string{
		fmt.Sprintf("meshes.%s={from: %s, options: {%s: %g}}", name, g.level, e.Axis.Name, e.At),
		fmt.Sprintf("factors.mesh=[%s]", strings.Join(append(meshes, name), ", ")),
	}
}

// FewError is a run with too few rates with the cost, or too few complete blocks for a curve.
type FewError struct {
	Rates, Loads     int // Loads are combinations of a rate with levels of the other axes
	Blocks, Complete int // Complete blocks have enough trials with the cost
}

func (e *FewError) Error() string {
	switch {
	case e.Rates < minRates: // the run may have more, without this cost
		return fmt.Sprintf("a curve needs usable trials at %d rates, and the run has them at %d%s", minRates, e.Rates, leftOut)
	case e.Complete == e.Blocks:
		return fmt.Sprintf("a curve needs %d blocks, and the run has %d", minBlocks, e.Blocks)
	}
	return fmt.Sprintf("a curve needs %d blocks with usable trials at %d of %d loads, and the run has %d of %d%s", minBlocks, neededOf(e.Loads), e.Loads, e.Complete, e.Blocks, leftOut)
}

const leftOut = " (tare report prints why trials or their response times are left out)"

// Changes are the changes of the experiment with which a run is enough for a curve.
func (e *FewError) Changes() (all []string) {
	if e.Rates < minRates {
		all = append(all, "factors.rate=[100, 220, 490, 1000]")
	}
	if e.Complete < minBlocks {
		all = append(all, fmt.Sprintf("blocks=%d", max(2*minBlocks, minBlocks+e.Blocks-e.Complete))) // as many fail again
	}
	return all
}

// Hint is the changes.
func (e *FewError) Hint() string { return measureHint(e.Changes()) }

func measureHint(changes []string) string {
	return "measure it: tare run FILE" + flags(changes)
}

// flags are changes of an experiment, as tare run has them.
func flags(changes []string) (text string) {
	for _, change := range changes {
		text += " --set '" + change + "'"
	}
	return text
}

// refusal is a call whose cost was not measured.
type refusal struct {
	call  Call
	proxy string // sidecar of a service, or kind of shared proxies
	err   error
}

// mostNamed are the proxies, or the calls, that a reason names.
const mostNamed = 5

// refuse returns each reason once, with the calls or the proxies that it is about, and the command that measures what the
// graph needs.
func (c *Costs) refuse(g Graph, flow Flow, all []refusal) error {
	type reason struct {
		first     refusal
		axis      *Axis
		low, high float64
		of        []string
	}
	var reasons []*reason
	known := map[string]*reason{}
	for _, r := range all {
		key, of := r.err.Error(), fmt.Sprintf("calls from %s to %s", cmp.Or(r.call.From, "outside"), r.call.To)
		outside := (*OutsideError)(nil)
		if errors.As(r.err, &outside) {
			key = fmt.Sprint(outside.Axis)
			if outside.Axis.Name == experiment.RateFactor {
				of = r.proxy
			}
		}
		x := known[key]
		if x == nil {
			x = &reason{first: r}
			if outside != nil {
				x.axis, x.low, x.high = &outside.Axis, outside.At, outside.At
			}
			known[key], reasons = x, append(reasons, x)
		}
		if outside != nil {
			x.low, x.high = min(x.low, outside.At), max(x.high, outside.At)
		}
		x.of = lists.Add(x.of, of)
	}
	var lines []error
	for _, x := range reasons {
		place, of := g.place(x.first.call), printable.Listed(x.of, mostNamed)
		switch {
		case x.axis == nil:
			lines = append(lines, fmt.Errorf("%s%w: %s", place, x.first.err, of))
		case x.axis.Name == experiment.RateFactor:
			lines = append(lines, fmt.Errorf("%s%s: %s (requests received and sent)", place, x.axis.outside(x.low, x.high), of))
		default:
			lines = append(lines, fmt.Errorf("%s%s: %s", place, x.axis.outside(x.low, x.high), of))
		}
	}
	return hint.Wrap(errors.Join(lines...), "measure them: "+g.Command(flow, c.sources[0].dir))
}
