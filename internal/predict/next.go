package predict

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/tare-mesh/tare/internal/base/hint"
	"github.com/tare-mesh/tare/internal/base/lists"
	"github.com/tare-mesh/tare/internal/base/printable"
	"github.com/tare-mesh/tare/internal/compare"
	"github.com/tare-mesh/tare/internal/experiment"
	"github.com/tare-mesh/tare/internal/experiment/app"
	"github.com/tare-mesh/tare/internal/experiment/mesh"
	"github.com/tare-mesh/tare/internal/stats"
)

// Step is a run that would make sizes or forecasts more certain.
type Step struct {
	Dir   string        `json:"dir,omitempty"` // results directory with the experiment, empty if there is only one
	What  string        `json:"what"`
	Set   []string      `json:"set"`      // changes of the experiment file, as tare run --set has them
	Takes time.Duration `json:"takes_ns"` // without a change of meshes
}

// wide is half of a band, as a share of the cost, from which more blocks are proposed.
const wide = 0.03

// Next returns the runs that would make sizes more certain, the most useful first.
func Next(run *compare.Run, s Sizing, all []Size) (steps []Step) {
	rates := ratesOf(run)
	if len(rates) == 0 {
		return nil // the rate is no factor
	}
	block := run.TrialTime() * time.Duration(len(run.Plan.Treatments))
	blocks := run.Count().Blocks
	if at, ok := unknown(rates, all); ok {
		with := slices.Concat(rates, []float64{at})
		slices.Sort(with)
		steps = append(steps, Step{
			What:  fmt.Sprintf("the rate %g itself, because the form of the CPU between the measured rates is unknown", at),
			Set:   []string{"factors.rate=" + list(with)},
			Takes: block / time.Duration(len(rates)) * time.Duration(len(with)*blocks),
		})
	}
	if beyond(all, s) {
		top := rates[len(rates)-1]
		more := []float64{twoDigits(top * math.Sqrt2), twoDigits(top * 2)}
		steps = append(steps, Step{
			What:  fmt.Sprintf("two more rates above %g, because the headroom reaches beyond it", top),
			Set:   []string{"factors.rate=" + list(slices.Concat(rates, more))},
			Takes: block / time.Duration(len(rates)) * time.Duration((len(rates)+2)*blocks),
		})
	}
	// A throttled sidecar would answer in slices of others, so interleaved treatments have no limits.
	if without := unlimited(all); without != nil && run.Plan.Order != experiment.OrderInterleaved {
		name, limits := fmt.Sprint(without.Factors[experiment.MeshFactor]), []float64{without.RequestCPU, without.RequestCPU / 2}
		step := Step{What: "what a CPU limit does to the p99, at the request and at half of it", Takes: block * time.Duration(3*max(blocks, minBlocks))}
		names := []string{name}
		for _, cores := range limits {
			resources := fmt.Sprintf("limits: {cpu: %s}", milli(cores))
			if run.File.Platform.Kind == mesh.OnKubernetes { // refuses a limit below the mesh's own request
				resources = fmt.Sprintf("requests: {cpu: %s}, %s", milli(cores), resources)
			}
			names = append(names, name+"-"+milli(cores))
			step.Set = append(step.Set, fmt.Sprintf("meshes.%s-%s={from: %s, resources: {%s}}", name, milli(cores), name, resources))
		}
		step.Set = append(step.Set, "factors.mesh=["+strings.Join(names, ", ")+"]", fmt.Sprintf("baseline={mesh: %s}", name))
		steps = append(steps, step)
	}
	if half, gap := widest(all); half-gap > wide && blocks > 1 { // no block narrows what the form leaves open
		narrowed := gap + (half-gap)*stats.HalfWidth(1, 2*blocks, run.Confidence())/stats.HalfWidth(1, blocks, run.Confidence())
		steps = append(steps, Step{
			What:  fmt.Sprintf("%d blocks in place of %d: average CPU to ±%.0f%% in place of ±%.0f%%", 2*blocks, blocks, 100*narrowed, 100*half),
			Set:   []string{fmt.Sprintf("blocks=%d", 2*blocks)},
			Takes: block * time.Duration(2*blocks),
		})
	}
	return steps
}

// ratesOf returns the levels of the factor rate, the lowest first.
func ratesOf(run *compare.Run) (rates []float64) {
	for _, t := range run.Plan.Treatments {
		if rate, ok := t.Factors[experiment.RateFactor].(float64); ok && !slices.Contains(rates, rate) {
			rates = append(rates, rate)
		}
	}
	slices.Sort(rates)
	return rates
}

// unknown returns the rate of the run at which a proxy has the rate of its size, if that is between measured ones and no
// form is known.
func unknown(rates []float64, all []Size) (rate float64, ok bool) {
	for _, size := range all {
		if size.Proxy == ControlPlane || size.Curve.Form != formBetween || slices.Contains(levelsOf(size.Curve.Points, 0), size.Place[0]) {
			continue
		}
		rate = math.Round(size.Place[0] * rates[len(rates)-1] / size.Curve.Axes[0].To)
		return rate, !slices.Contains(rates, rate)
	}
	return 0, false
}

// beyond reports whether a proxy at its rate with the headroom is above the measured rates.
func beyond(all []Size, s Sizing) bool {
	return slices.ContainsFunc(all, func(size Size) bool {
		return size.Proxy != ControlPlane && size.Replicas == nil && s.Rate*(1+s.Headroom) > size.Curve.Axes[0].To
	})
}

// unlimited is a sidecar without a measured limit, if no sidecar has one.
func unlimited(all []Size) (first *Size) {
	for i := range all {
		limited := slices.ContainsFunc(all[i].Limited, func(l Limited) bool { return l.CPU > 0 })
		switch {
		case limited:
			return nil
		case first == nil && strings.HasPrefix(all[i].Proxy, mesh.RoleSidecar):
			first = &all[i]
		}
	}
	return first
}

// widest is half of the band of CPU that blocks could narrow most, as a share, and what its form leaves open of it.
func widest(all []Size) (half, gap float64) {
	for _, size := range all {
		if size.Proxy == ControlPlane {
			continue
		}
		h, g := (size.CPU.High-size.CPU.Low)/2/size.CPU.Estimate, size.Curve.gap(size.Place)/size.CPU.Estimate
		if h-g > half-gap {
			half, gap = h, g
		}
	}
	return half, gap
}

func list(rates []float64) string {
	all := lists.Map(rates, func(rate float64) string { return fmt.Sprintf("%g", rate) })
	return "[" + strings.Join(all, ", ") + "]"
}

// Used is a measured curve that a forecast reads costs from.
type Used struct {
	What     string   `json:"what"`     // cost: "CPU of inbound calls"
	Kind     Kind     `json:"kind"`     // of the cost: "CPU"
	Of       string   `json:"of"`       // calls with the cost: "inbound calls"
	Protocol string   `json:"protocol"` // of the calls
	From     string   `json:"from"`     // results directory
	Curve    *Curve   `json:"curve"`
	Places   []Placed `json:"places"` // where it is read
}

// Placed is where the calls of a service lie on a curve.
type Placed struct {
	Service string    `json:"service"`
	Rate    float64   `json:"rate"` // requests/s through one sidecar, which may be below the curve
	At      []float64 `json:"at"`   // on the curve: a level of each axis
	Band    Band      `json:"band"`
}

// usedCurves returns the curves that sidecars read their costs from, those with the highest costs of CPU first.
func usedCurves(proxies []proxy) (all []Used) {
	for _, of := range []func(proxy) []part{func(p proxy) []part { return p.cpu }, func(p proxy) []part { return p.memory }} {
		for _, p := range proxies {
			for _, x := range of(p) {
				if x.weight <= 0 { // subtracted
					continue
				}
				i := slices.IndexFunc(all, func(u Used) bool { return u.Curve == x.curve })
				if i < 0 {
					i = len(all)
					q := x.source.quantityOf(x.curve)
					all = append(all, Used{What: q.String(), Kind: q.kind, Of: q.of, Protocol: x.source.protocol, From: x.source.dir, Curve: x.curve})
				}
				placed := Placed{Service: p.service, Rate: p.rate, At: x.at}
				if slices.ContainsFunc(all[i].Places, func(q Placed) bool { return q.Service == p.service && slices.Equal(q.At, x.at) }) {
					continue
				}
				if band, err := x.curve.At(x.at...); err == nil {
					placed.Band = band
				}
				all[i].Places = append(all[i].Places, placed)
			}
		}
	}
	return all
}

func (s *source) quantityOf(c *Curve) quantity {
	for q, of := range s.curves {
		if of == c {
			return q
		}
	}
	return quantity{}
}

// mostLeft is the share of a range from which a run is not worth its time.
const mostLeft = 0.95

// fewest requests of a trial, from which its proxies have a cost of requests.
const fewest = 20

// NextOf returns the runs that would narrow the CPU of forecasts, those with the narrowest ranges first.
func NextOf(sources []Source, forecasts []Forecast) (steps []Step) {
	type narrower struct {
		Step
		left float64
	}
	var all []narrower
	add := func(n narrower) {
		if i := slices.IndexFunc(all, func(other narrower) bool { return other.Dir == n.Dir && slices.Equal(other.Set, n.Set) }); i < 0 {
			all = append(all, n)
		} else {
			all[i].left = min(all[i].left, n.left)
		}
	}
	for _, f := range forecasts {
		half := f.CPU.Causes.half()
		for _, s := range sources {
			if !(half > 0) || !slices.ContainsFunc(f.Curves, func(u Used) bool { return u.Kind == CPU && u.From == s.Dir }) {
				continue
			}
			rates, block, blocks := ratesOf(s.Run), s.Run.TrialTime()*time.Duration(len(s.Run.Plan.Treatments)), s.Run.Count().Blocks
			if names, lowest := f.below(s.Dir); len(names) > 0 && len(rates) > 0 {
				known := f.CPU.Causes
				known.Range = 0
				low := twoDigits(0.9 * lowest)
				set, perBlock := []string{"factors.rate=" + list(append([]float64{low}, rates...))}, block
				if measure, least := s.Run.File.Phases.Measure, experiment.Duration(math.Ceil(fewest/low))*experiment.Duration(time.Second); measure > 0 && measure < least {
					set = append(set, "phases.measure="+least.String())
					perBlock += time.Duration(least-measure) * time.Duration(len(s.Run.Plan.Treatments))
				}
				add(narrower{Step{
					What:  fmt.Sprintf("a rate of %g, because the lowest measured one is %g and a sidecar of %s has fewer requests: CPU to ±%s in place of ±%s", low, rates[0], printable.Listed(names, 3), milli(known.half()), milli(half)),
					Set:   set,
					Takes: perBlock / time.Duration(len(rates)) * time.Duration((len(rates)+1)*blocks),
					Dir:   s.Dir,
				}, known.half() / half})
			}
			if blocks < 2 {
				continue
			}
			student := func(n int) float64 { return stats.HalfWidth(math.Sqrt(float64(n)), n, f.Confidence) }
			more := f.CPU.Causes
			grows := student(2*blocks) / student(blocks)
			more.Curve, more.Deployment, more.Graph = more.Curve*grows/math.Sqrt2, more.Deployment*grows, more.Graph*grows
			add(narrower{Step{
				What:  fmt.Sprintf("%d blocks in place of %d: CPU to ±%s in place of ±%s", 2*blocks, blocks, milli(more.half()), milli(half)),
				Set:   []string{fmt.Sprintf("blocks=%d", 2*blocks)},
				Takes: block * time.Duration(2*blocks),
				Dir:   s.Dir,
			}, more.half() / half})
		}
	}
	slices.SortStableFunc(all, func(a, b narrower) int { return cmp.Compare(a.left, b.left) })
	worth := lists.Where(all, func(n narrower) bool { return n.left <= mostLeft })
	steps = lists.Map(worth, func(n narrower) Step { return n.Step })
	return slices.Concat(steps, calledStep(sources, forecasts))
}

// below returns the services with fewer requests than a run measured, and the lowest rate of their sidecars.
func (f Forecast) below(dir string) (names []string, lowest float64) {
	lowest = math.Inf(1)
	for _, u := range f.Curves {
		for _, p := range u.Places {
			if u.From == dir && p.Rate > 0 && p.Rate < u.Curve.Axes[0].From {
				lowest = min(lowest, p.Rate)
				names = lists.Add(names, p.Service)
			}
		}
	}
	return names, lowest
}

// half is the half width of an interval with these causes.
func (c Causes) half() float64 {
	return math.Sqrt(c.Curve*c.Curve + c.Deployment*c.Deployment + c.Graph*c.Graph + c.Range*c.Range + c.Connections*c.Connections + c.Called*c.Called)
}

// milli are thousandths of a core, as Kubernetes writes them.
func milli(cores float64) string { return fmt.Sprintf("%.0fm", cores*1000) }

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
	words := lists.Map(slices.Compact(levels), e.Axis.words)
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
		meshes = lists.Add(meshes, fmt.Sprint(t.Factors[experiment.MeshFactor]))
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
		return fmt.Sprintf("a curve over rates needs usable trials at %d rates, and the run has them at %d%s", minRates, e.Rates, leftOut)
	case e.Complete == e.Blocks:
		return fmt.Sprintf("a curve over rates needs %d blocks (repetitions), and the run has %d", minBlocks, e.Blocks)
	}
	return fmt.Sprintf("a curve over rates needs %d blocks (repetitions) with usable trials at %d of %d loads, and the run has %d of %d%s", minBlocks, neededOf(e.Loads), e.Loads, e.Complete, e.Blocks, leftOut)
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
		case errors.As(x.first.err, new(*FewError)): // the run lacks it for every call
			lines = append(lines, x.first.err)
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

// Deviations are standard deviations, as shares of the cost.
type Deviations struct {
	Deployment float64 // of deployments
	Trial      float64 // of trials of one deployment
}

// Assumed are the deviations of Envoy sidecars on a shared machine, in runs with trials of 3 s.
var Assumed = Deviations{Deployment: 0.05, Trial: 0.05}

// DeviationsOf returns the largest deviations of any kind of proxy in a run with curves.
func DeviationsOf(run *compare.Run) (d Deviations, err error) {
	axes := []string{experiment.RateFactor}
	for _, g := range groupsOf(run, axes) {
		for _, m := range g.kinds {
			c, err := Fit(m.cpu, axes, run.Confidence())
			if err != nil {
				return d, err
			}
			middle := []float64{math.Sqrt(c.Axes[0].From * c.Axes[0].To)}
			costs := lists.Map(c.fits, func(k []float64) float64 { return c.value(c.form, k, middle) })
			d.Deployment = max(d.Deployment, stats.SD(costs)/stats.Mean(costs))
			d.Trial = max(d.Trial, c.Noise)
		}
	}
	if d.Trial == 0 {
		return d, errors.New("no valid trial of the run has a proxy of its own and a rate")
	}
	return d, nil
}

// Design is the rates and blocks of a run for a curve.
type Design struct {
	Rates  []float64
	Blocks int
	// Mean and Another are half of the bands at the rate where they are widest, as shares of the cost: of the mean of
	// deployments, and of one more.
	Mean, Another float64
}

const (
	mostRates  = 7
	candidates = 14 // of rates between both ends, at equal ratios
	fixedShare = 0.2
)

// BestDesign returns the rates between two ends, and the blocks, with the narrowest bands of the mean. blocks is how many
// blocks of a number of rates there is time for. The rates are best for the form for which they are worst (minimax of
// the G-optimal designs of Kiefer and Wolfowitz, 1960), with a fifth of the cost at the highest rate fixed.
func BestDesign(from, to float64, d Deviations, blocks func(rates int) int, confidence float64) (best Design, ok bool) {
	for n := knownRates; n <= mostRates; n++ {
		b := blocks(n)
		if b < minBlocks {
			continue
		}
		rates, spread := bestRates(from, to, n)
		x := Design{Rates: rates, Blocks: b}
		variance := d.Deployment*d.Deployment + d.Trial*d.Trial*spread
		x.Mean = stats.HalfWidth(math.Sqrt(variance), b, confidence)
		x.Another = stats.HalfWidth(math.Sqrt(variance*float64(b+1)+d.Trial*d.Trial*float64(b)), b, confidence)
		if !ok || x.Mean < best.Mean {
			best, ok = x, true
		}
	}
	return best, ok
}

// bestRates returns n rates, and the largest variance of a curve through them, in variances of a trial.
func bestRates(from, to float64, n int) (best []float64, least float64) {
	all := []float64{from}
	for i := 1; i < candidates; i++ {
		all = append(all, twoDigits(from*math.Pow(to/from, float64(i)/candidates)))
	}
	all = append(all, to)
	chosen := make([]float64, 0, n)
	var choose func(next int)
	choose = func(next int) {
		if len(chosen) == n-1 {
			rates := append(slices.Clone(chosen), to)
			if v := worstVariance(rates, all); best == nil || v < least {
				best, least = rates, v
			}
			return
		}
		for i := next; i < len(all)-1; i++ {
			chosen = append(chosen, all[i])
			choose(i + 1)
			chosen = chosen[:len(chosen)-1]
		}
	}
	chosen = append(chosen, from)
	choose(1)
	return best, least
}

// worstVariance is the largest variance of a curve of any form through rates, at any of the places.
func worstVariance(rates, places []float64) (worst float64) {
	c := &Curve{Axes: []Axis{{To: rates[len(rates)-1]}}}
	for _, f := range rateForms {
		n := len(f.terms)
		for _, place := range places {
			// The variance is x'(X'X)^-1 x, with the terms of each rate as shares of its cost.
			x := c.costShares(f, place)
			normal := make([][]float64, n)
			for i := range normal {
				normal[i] = append(make([]float64, n), x[i])
			}
			for _, rate := range rates {
				r := c.costShares(f, rate)
				for i := range n {
					for j := range n {
						normal[i][j] += r[i] * r[j]
					}
				}
			}
			k, ok := solved(normal)
			if !ok {
				return math.Inf(1)
			}
			worst = max(worst, weighted(k, x))
		}
	}
	return worst
}

// costShares are the terms of a form at a rate, as shares of a cost with a fixed part.
func (c *Curve) costShares(f form, rate float64) []float64 {
	parts := c.parts(f, []float64{rate})
	cost := fixedShare + (1-fixedShare)*rate/c.Axes[0].To
	for i := range parts {
		parts[i] /= cost
	}
	return parts
}

func twoDigits(v float64) float64 {
	unit := math.Pow(10, math.Floor(math.Log10(v))-1)
	return math.Round(v/unit) * unit
}
