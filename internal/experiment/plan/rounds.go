package plan

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/tare-mesh/tare/internal/base/hint"
	"github.com/tare-mesh/tare/internal/base/lists"
	"github.com/tare-mesh/tare/internal/experiment"
	"github.com/tare-mesh/tare/internal/experiment/mesh"
	"github.com/tare-mesh/tare/internal/load"
)

// NotInterleaved returns why the treatments are not interleaved by default, or "" if nothing forbids it.
func (p *Plan) NotInterleaved() string {
	groups, members, most := p.groups(), map[group]int{}, 0
	for _, t := range p.Treatments {
		if t.Baseline != "" && groups[t.ID] != groups[t.Baseline] {
			return "treatments that are compared have different loads"
		}
		members[groups[t.ID]]++
		most = max(most, members[groups[t.ID]])
	}
	switch {
	case most < 2:
		return "no treatments are compared"
	case most > load.MaxOwners:
		return fmt.Sprintf("%d treatments would be deployed at once, max %d", most, load.MaxOwners)
	}
	return ""
}

// AtOnce lists the treatments that are deployed at once, for each set of them.
func (p *Plan) AtOnce() [][]Treatment {
	groups := p.groups()
	return together(p.Treatments, func(t Treatment) group { return groups[t.ID] })
}

// together has a list of the items of each key, in the order of their first.
func together[T any, K comparable](all []T, of func(T) K) [][]T {
	var keys []K
	items := map[K][]T{}
	for _, x := range all {
		keys = lists.Add(keys, of(x))
		items[of(x)] = append(items[of(x)], x)
	}
	return lists.Map(keys, func(key K) []T { return items[key] })
}

// interleave puts the trials of each block into rounds, if the experiment's order requires it. A
// trial that is alone in its group remains outside.
func (p *Plan) interleave(e *experiment.Experiment) error {
	if e.Order != experiment.OrderInterleaved {
		return nil
	}
	if length := time.Duration(e.Slices.Length); e.Batch == nil {
		p.Slices = &Slices{Length: length, Guard: time.Duration(e.Slices.Guard),
			Warmup: int((time.Duration(e.Phases.Warmup) + length - 1) / length), Measure: int(time.Duration(e.Phases.Measure) / length)}
	}
	p.Order = e.Order
	groups, members := p.groups(), map[group]int{}
	for _, t := range p.Treatments {
		g := groups[t.ID]
		if members[g]++; members[g] > load.MaxOwners {
			return fmt.Errorf("more than %d treatments to be compared at once: remove order: %s, or levels of a factor", load.MaxOwners, e.Order)
		}
		if s := p.Slices; s != nil && members[g] > 1 && members[g]*(s.Warmup+s.Measure) > load.MaxSlices { // a load refuses it, once all are deployed
			return hint.New("write longer slices (slices.length) or a shorter phases.measure",
				"%d treatments at once have %d slices of %v, max %d", members[g], members[g]*(s.Warmup+s.Measure), s.Length, load.MaxSlices)
		}
	}
	type key struct {
		block int
		group group
	}
	of := func(t Trial) key { return key{t.Block, groups[t.Treatment]} }
	batch(p, of)
	rounds, background := map[key]int{}, p.backgroundTime(e)
	p.Expected = 0
	for i := range p.Trials {
		t := &p.Trials[i]
		k := of(*t)
		n := members[k.group]
		if n < 2 {
			p.Expected += p.TrialTime
			continue
		}
		if rounds[k] == 0 {
			rounds[k] = len(rounds) + 1
			p.Expected += p.roundTime(e, n)
		}
		p.Expected += background[t.Treatment]
		t.Round = rounds[k]
	}
	if n := len(p.Trials); n > 0 {
		p.TrialTime = p.Expected / time.Duration(n)
	}
	return nil
}

func (p *Plan) groups() map[string]group {
	all := map[string]group{}
	for _, t := range p.Treatments {
		all[t.ID] = p.groupOf(t)
	}
	return all
}

// Slices are the time slices of a round.
type Slices struct {
	Length  time.Duration `json:"length"`  // length of a time slice, ns; `slices` is absent without rounds
	Guard   time.Duration `json:"guard"`   // end of each slice without load, ns
	Warmup  int           `json:"warmup"`  // slices of each trial of a round in the warm-up
	Measure int           `json:"measure"` // the same in the measure phase
}

// group has the properties that the treatments of a round share: the baseline, if the plan has one, and
// the load.
type group struct {
	baseline string
	load     experiment.Levels
}

func (p *Plan) groupOf(t Treatment) group {
	g := group{load: t.Levels}
	g.load.Mesh, g.load.Application, g.load.Replicas = "", "", 0
	if t.Control { // beside what it repeats
		if i := slices.IndexFunc(p.Treatments, func(o Treatment) bool { return o.ID == t.Baseline }); i >= 0 {
			t = p.Treatments[i]
		}
	}
	if slices.ContainsFunc(p.Treatments, func(t Treatment) bool { return t.Baseline != "" }) {
		g.baseline = cmp.Or(t.Baseline, t.ID)
	}
	return g
}

// allowance is the time outside the phases, of a round and of each of its trials. On this machine deployments
// start and are verified one after another.
type allowance struct{ round, member time.Duration }

var (
	// heldAllowance: the loads begin when all are ready, and end with their last answers.
	heldAllowance = allowance{400 * time.Millisecond, 100 * time.Millisecond}
	// leadAllowance: the loads have a lead and a tail.
	leadAllowance = allowance{1500 * time.Millisecond, 800 * time.Millisecond}
)

// roundTime is the expected duration of a round. Members that are loaded at once have the same phases.
func (p *Plan) roundTime(e *experiment.Experiment, members int) time.Duration {
	n := time.Duration(members)
	if e.Batch != nil {
		return n*time.Duration(e.Phases.Measure) + batchAllowance
	}
	if p.Slices != nil && e.Platform.Kind == mesh.OnLocal {
		return n*time.Duration(p.Slices.Warmup+p.Slices.Measure)*p.Slices.Length + n*heldAllowance.member + heldAllowance.round
	}
	outside := n*leadAllowance.member + time.Duration(e.Phases.Drain) + leadAllowance.round
	if p.Slices == nil {
		return time.Duration(e.Phases.Warmup) + time.Duration(e.Phases.Measure) + outside
	}
	return n*time.Duration(p.Slices.Warmup+p.Slices.Measure)*p.Slices.Length + outside
}

// Owners returns the owner of each slice of a round, first for the warm-up, then for the measure
// phase: that number of slices for each of the members, 0 to members-1.
//
// Slices come in rows, each with one slice of every member: what changes slowly affects all alike.
// The rows form a Williams design (Australian Journal of Scientific Research 2, 1949), in
// which each member follows each other equally often. Their own order is a random circuit in which
// each row follows each row once, itself included. After a whole circuit every member has followed
// every member equally often, across rows too. Members are assigned to the design at random.
func Owners(seed uint64, members, warmup, measure int) []int {
	source := rand.NewPCG(seed, 0x736c_6963)
	design := williams(members)
	names := numbers(members)
	shuffle(names, source)
	first := int(below(source, uint64(len(design))))
	// A circuit ends where it begins, so the warm-up leads into the measure phase.
	before := circuits(len(design), first, warmup, source)
	order := slices.Concat(before[len(before)-warmup:], circuits(len(design), first, measure, source)[:measure])
	owners := make([]int, 0, len(order)*members)
	for _, row := range order {
		for _, m := range design[row] {
			owners = append(owners, names[m])
		}
	}
	return owners
}

// williams returns the rows of a Williams design: n rows for even n, 2n for odd n.
func williams(n int) (design [][]int) {
	for row := range designRows(n) {
		design = append(design, williamsRow(n, row))
	}
	return design
}

// circuits returns random Eulerian circuits of the complete digraph over n nodes, with loops, as
// many as min nodes need. Each begins after first and ends with it.
func circuits(n, first, min int, source rand.Source) (nodes []int) {
	for len(nodes) < min {
		nodes = append(nodes, circuit(n, first, source)...)
	}
	return nodes
}

// circuit is Hierholzer's algorithm (Mathematische Annalen 6, 1873), with the edges of each node in
// random order.
func circuit(n, first int, source rand.Source) []int {
	edges := make([][]int, n)
	for i := range edges {
		edges[i] = numbers(n)
		shuffle(edges[i], source)
	}
	var nodes []int
	for stack := []int{first}; len(stack) > 0; {
		at := stack[len(stack)-1]
		if len(edges[at]) == 0 {
			nodes = append(nodes, at)
			stack = stack[:len(stack)-1]
			continue
		}
		stack = append(stack, edges[at][0])
		edges[at] = edges[at][1:]
	}
	slices.Reverse(nodes)
	return nodes[1:]
}

// Rounds splits trials, in the order of their plan, into the rounds that run together. A trial outside a round is one.
func Rounds(trials []Trial) [][]Trial {
	var all [][]Trial
	for i, t := range trials {
		if i > 0 && t.Round > 0 && trials[i-1].Round == t.Round {
			all[len(all)-1] = append(all[len(all)-1], t)
			continue
		}
		all = append(all, []Trial{t})
	}
	return all
}

// balancedStream keeps the draws of designs apart from the draws of blocks.
const balancedStream = 1 << 40

// balancedOrder is the order of n treatments in a block, from 1. Blocks are the rows of
// Williams designs, each with its treatments and rows in random order. An odd number of
// treatments has both halves of its rows apart, so that n blocks balance the positions.
func balancedOrder(n int, seed uint64, block int) []int {
	rows := designRows(n)
	source := rand.NewPCG(seed, balancedStream+uint64((block-1)/rows))
	names := numbers(n)
	shuffle(names, source)
	halves := [][]int{numbers(n), numbers(rows - n)}
	order := make([]int, 0, rows)
	first := int(below(source, 2))
	for i := range halves {
		half := (i + first) % len(halves)
		shuffle(halves[half], source)
		for _, row := range halves[half] {
			order = append(order, row+half*n)
		}
	}
	out := williamsRow(n, order[(block-1)%rows])
	for i, v := range out {
		out[i] = names[v]
	}
	return out
}

// williamsRow is a row, from 0, of a Williams design of n treatments. Each treatment is in
// each position equally often, and directly after each other treatment equally often
// (Williams, Australian Journal of Scientific Research 1949). An even n has n rows. An odd
// n has 2n: n rows, a Latin square by themselves, and the same rows backwards.
func williamsRow(n, row int) []int {
	out := make([]int, n)
	for i := range out { // 0, 1, n-1, 2, n-2, … and its shifts
		v := n - i/2
		if i%2 == 1 {
			v = (i + 1) / 2
		}
		out[i] = (v + row) % n
	}
	if row >= n {
		slices.Reverse(out)
	}
	return out
}

// designRows is the number of rows of a Williams design.
func designRows(n int) int {
	if n%2 == 1 && n > 1 {
		return 2 * n
	}
	return n
}

// numbers are 0 to n-1.
func numbers(n int) []int {
	all := make([]int, n)
	for i := range all {
		all[i] = i
	}
	return all
}

// ByMesh is [Plan.Order] of experiments with order by-mesh.
const ByMesh = "turns"

// keepTogether makes the trials of a mesh consecutive, if the experiment's order requires it. Meshes keep the order of
// their first trials in the block or run, and trials of a mesh keep their order. Both are random, as in the blocks.
func (p *Plan) keepTogether(order string) {
	if order != experiment.OrderByMesh && order != experiment.OrderOnce {
		return
	}
	if p.Order = order; order == experiment.OrderByMesh {
		p.Order = ByMesh
	}
	mesh := map[string]string{}
	for _, t := range p.Treatments {
		mesh[t.ID] = t.Levels.Mesh
	}
	type turn struct {
		block int
		mesh  string
	}
	batch(p, func(t Trial) turn {
		if order == experiment.OrderOnce {
			return turn{mesh: mesh[t.Treatment]}
		}
		return turn{t.Block, mesh[t.Treatment]}
	})
}

// batch makes the trials of equal keys consecutive, in the order of their first trials.
func batch[K comparable](p *Plan, of func(Trial) K) {
	p.Trials = append(p.Trials[:0], slices.Concat(together(p.Trials, of)...)...)
	for i := range p.Trials {
		t := &p.Trials[i]
		t.Ordinal = i + 1
		t.ID = trialID(t.Ordinal, t.Treatment, t.Block)
	}
}

func trialID(ordinal int, treatment string, block int) string {
	return fmt.Sprintf("%03d-%s-b%d", ordinal, treatment, block)
}

// StopsAtWidth reports whether the number of blocks depends on the width of an interval.
func (p *Plan) StopsAtWidth() bool { return p.Until != "" && p.Until != experiment.UntilValid }

func (p *Plan) ByID() map[string]Treatment {
	all := map[string]Treatment{}
	for _, t := range p.Treatments {
		all[t.ID] = t
	}
	return all
}

// Needed is the number of trials without repetitions.
func (p *Plan) Needed() int {
	if p.Until != experiment.UntilValid || p.Blocks == 0 {
		return len(p.Trials)
	}
	return len(p.Trials) / p.Blocks * p.MinBlocks
}
