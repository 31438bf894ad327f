package experiment

import (
	"time"

	"github.com/tare-mesh/tare/internal/metric"
)

// Decide are gates on the differences to the baseline. The run ends when one is breached or all hold, unless they are decided at its end.
type Decide struct {
	// Gates are conditions such as "cpu_us_per_request/data < +2%".
	Gates []string `yaml:"gates,omitempty" json:"gates,omitempty"`
	// Detect widens what counts as holding: a gate holds if the difference is shown to be below its limit plus this
	// share. Default 0.
	Detect Share `yaml:"detect,omitempty" json:"detect,omitempty"`
	// Within ends the run undecided when the next block would last longer. 0 means after the last block.
	Within Duration `yaml:"within,omitempty" json:"within,omitempty"`
	// AtEnd runs all blocks: the gates are decided once, so that every figure has the planned blocks.
	AtEnd bool `yaml:"atEnd,omitempty" json:"atEnd,omitempty"`
}

// minDecide is the number of blocks from which a gate may be decided: with fewer, the spread is known too badly.
const minDecide = 4

// DecideFrom is the first block after which gates are decided.
func DecideFrom() int { return minDecide }

func (v scheduleRules) decide() {
	d := v.e.Decide
	if len(d.Gates) == 0 {
		if v.doc.Has("decide") {
			v.report("decide.gates", "add gates: [\""+metric.CPUPerRequest+"/data < +2%\"]", "no gate is given")
		}
		return
	}
	switch {
	case v.e.Blocks.Until != nil:
		v.report("decide", "remove until from blocks: the gates end the run", "blocks.until and decide exclude each other")
	case v.e.Blocks.Max < minDecide:
		v.report("decide", "raise blocks to 10 or more", "gates are decided from %d blocks on, and there are %d", minDecide, v.e.Blocks.Max)
	case v.e.Baseline == nil:
		v.report("decide", "write a baseline, such as baseline: {mesh: envoy}", "a gate bounds the difference to a baseline, and there is none")
	case d.AtEnd && d.Within > 0:
		v.report("decide.within", "remove within or atEnd", "within ends the run early, and atEnd runs all blocks")
	case v.e.Order == OrderOnce:
		v.report("decide", "write another order", "with order once no block ends before the last mesh")
	}
}

func decideRows() []fieldRow {
	return []fieldRow{
		{"decide", "Gates on differences to the baseline that end the run when each holds or is breached, by a group-sequential test.", nil, nil},
		{"decide.gates", "Conditions: " + metric.CPUPerRequest + "/data < +2%, or " + metric.Latency + "/p99{mesh=envoy-new} < +0.5ms.", nil, form(levelList)},
		{"decide.detect", "A gate holds if the difference is shown to be below its limit plus this share.", 0, nil},
		{"decide.within", "Time after which the run ends undecided, without pauses of over five minutes before a resume; default: all blocks.", nil, between(0, Duration(24*7*time.Hour), "10m decides most gates")},
		{"decide.atEnd", "Runs all blocks, and decides the gates once, after the last: other figures have all blocks.", false, nil},
	}
}
