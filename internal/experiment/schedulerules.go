package experiment

import (
	"fmt"
	"strings"
)

// Orders of the trials.
const (
	OrderRandom   = "random"   // all treatments of a block in random order
	OrderBalanced = "balanced" // the same, each treatment in each position and after each other equally often
	OrderByMesh   = "by-mesh"  // within a block, consecutive trials of one mesh; meshes in random order
	OrderOnce     = "once"     // the same over all blocks: each mesh is installed once per run
	// OrderInterleaved deploys treatments to be compared at once and moves the load between them.
	OrderInterleaved = "interleaved"
)

// orders lists the orders, the default first.
var orders = []string{OrderRandom, OrderBalanced, OrderByMesh, OrderOnce, OrderInterleaved}

// minSequential is the number of blocks before which a run does not stop early.
// With fewer, the standard deviation is often too small by chance, and the
// interval covers less than its confidence. The simulation in
// internal/stats shows by how much.
const minSequential = 5

type scheduleRules struct{ validation }

func (v scheduleRules) validate() {
	if p := v.e.Phases; v.doc.Has("phases.soak") && p.Measure != p.Soak { // rendered files have both
		v.report("phases.measure", "remove one of them", "%v is not the length of the soak, %v, which is the measure phase", p.Measure, p.Soak)
	}
	v.repetition()
	v.decide()
}

func (v scheduleRules) repetition() {
	v.blocks()
	v.order()
	v.interleaved()
	v.reference()
	v.ladder()
	v.oneAtATime()
	if !v.doc.Sound("factors") || !v.doc.Sound("blocks") || !v.doc.Sound("control") {
		return
	}
	v.trials()
}

const blocksHint = "a block runs every treatment once; intervals need 6 or more"

func (v scheduleRules) blocks() {
	b := v.e.Blocks
	if !v.doc.Has("blocks.min") && !v.doc.Has("blocks.max") && !v.doc.Has("blocks.until") {
		return
	}
	if b.Min > b.Max {
		v.report("blocks.max", "", "%d is less than the %d of min", b.Max, b.Min)
	}
	if b.Min < minSequential && (b.Until == nil || !b.Until.Valid) {
		v.report("blocks.min", "with fewer blocks an interval can be narrow by chance", "%d is not between %d and %d", b.Min, minSequential, MaxTrials)
	}
	if b.Until == nil {
		v.report("blocks", `add until: "`+precisionExample+`", or write blocks: 6`, "min and max need until, the precision at which the run stops, or valid")
	}
}

func (v scheduleRules) order() {
	switch {
	case v.e.Order != "" || v.doc.Has("order"):
		v.check("order", v.e.Order, oneOf("order", orders...))
	}
	if v.e.Order == OrderOnce && v.e.Blocks.Until != nil {
		v.report("order", "write order: by-mesh, or a number of blocks", "with order once no block ends before the last mesh, and blocks.until needs complete blocks")
	}
}

// ladder checks that there are steps to compare.
func (v scheduleRules) ladder() {
	switch {
	case !v.e.Ladder:
	case v.e.Baseline == nil:
		v.report("ladder", "write a baseline, such as baseline: {mesh: none}", "the first step is the baseline, and there is none")
	case len(v.e.meshes()) < 2:
		v.report("ladder", "write the steps in factors.mesh, in their order", "a ladder needs two meshes or more")
	}
}

// oneAtATime checks that there are factors to vary.
func (v scheduleRules) oneAtATime() {
	if v.e.OneAtATime && len(v.e.Baseline) < 2 {
		v.report("oneAtATime", "write a baseline with the level of each factor that varies, such as baseline: {backgroundProxies: 10, backgroundServices: 100}",
			"fewer than two factors are in the baseline, so that nothing is left out")
	}
}

// trials bounds the product of factors, controls and blocks.
func (v scheduleRules) trials() {
	treatments, controls, alone := 1, 1, 1
	var product []string
	for _, f := range v.e.Factors.Named() {
		n := len(f.Levels)
		product = append(product, fmt.Sprintf("%d %s", n, f.Name))
		// Capped, so that seven long lists do not overflow.
		treatments = min(treatments*n, 1e12)
		if _, fixed := v.e.Baseline[f.Name]; fixed {
			alone += n - 1
		} else {
			controls = min(controls*n, 1e12)
		}
	}
	if v.e.OneAtATime {
		treatments = min(treatments, controls*alone)
	}
	times := strings.Join(product, " × ")
	total := treatments * v.e.Blocks.Max
	if v.e.ControlAll {
		controls = treatments
	}
	if (v.e.Control || v.e.ControlAll) && v.e.Baseline != nil {
		total += controls * v.e.Blocks.Max
		times += " with controls"
	}
	if total > MaxTrials {
		v.report("factors", "remove levels or blocks, or split the experiment", "%s × %d blocks is %d trials, max %d",
			times, v.e.Blocks.Max, total, MaxTrials)
	}
}
