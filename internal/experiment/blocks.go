package experiment

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"

	"github.com/tare-mesh/tare/internal/metric"
)

// Blocks is how often every treatment runs: a number, or as often as it takes
// for an interval to be narrow enough.
type Blocks struct {
	Min   int        `yaml:"min" json:"min"`
	Max   int        `yaml:"max" json:"max"` // what is planned
	Until *Precision `yaml:"until,omitempty" json:"until,omitempty"`
}

// Fixed is a number of blocks that does not depend on what is found.
func Fixed(n int) Blocks { return Blocks{Min: n, Max: n} }

// ShortForm reads a number.
func (b *Blocks) ShortForm() (any, func()) {
	n := new(int)
	return n, func() { *b = Fixed(*n) }
}

// MarshalYAML writes what can be read.
func (b Blocks) MarshalYAML() (any, error) {
	if b.Until == nil {
		return b.Max, nil
	}
	type plain Blocks
	return plain(b), nil
}

// MarshalJSON writes what MarshalYAML does.
func (b Blocks) MarshalJSON() ([]byte, error) {
	if b.Until == nil {
		return json.Marshal(b.Max)
	}
	type plain Blocks
	return json.Marshal(plain(b))
}

// Precision is how narrow the interval of a metric must be: half of its width.
type Precision struct {
	Metric   string
	Half     float64 // in percent, or in the metric's unit
	Relative bool    // to what the treatment comes to
	text     string
}

func (p Precision) String() string { return p.text }

// MarshalYAML writes what UnmarshalScalar reads.
func (p Precision) MarshalYAML() (any, error) { return p.text, nil }

// MarshalJSON writes what UnmarshalScalar reads.
func (p Precision) MarshalJSON() ([]byte, error) { return json.Marshal(p.text) }

// precisionExample is a valid Precision for messages and help.
const precisionExample = metric.CPUPerRequest + "/total ±2%"

// Wants says what UnmarshalScalar expects.
func (Precision) Wants() string {
	return "a metric and half of a width, such as " + precisionExample
}

// UnmarshalScalar reads "<metric> ±<number>[%|unit]"; "+-" will do for "±".
func (p *Precision) UnmarshalScalar(text string) error {
	name, width, ok := strings.Cut(strings.Replace(text, "+-", "±", 1), "±")
	if !ok {
		return fmt.Errorf("found %.60q, expected %s", text, p.Wants())
	}
	name, width = strings.TrimSpace(name), strings.TrimSpace(width)
	m, ok := metric.Lookup(name)
	if !ok {
		return fmt.Errorf("there is no metric %.40q: `tare list metrics` lists them", name)
	}
	digits := width[:len(width)-len(strings.TrimLeft(width, "0123456789."))]
	half, err := strconv.ParseFloat(digits, 64)
	if err != nil || !(half > 0) || half > 1e12 {
		return fmt.Errorf("%.40q is not a number above 0, with %% or a unit of %s", width, name)
	}
	unit := strings.TrimSpace(strings.TrimPrefix(width, digits))
	out := Precision{Metric: name, Half: half, Relative: unit == "%", text: text}
	if !out.Relative {
		scale, ok := m.Scale(unit)
		if !ok {
			return fmt.Errorf("%.20q is not a unit of %s", unit, name)
		}
		out.Half *= scale
	}
	*p = out
	return nil
}

// blocks checks the numbers of blocks.
func (v validation) blocks() {
	b := v.e.Blocks
	const hint = "a block runs every treatment once; 6 or more give intervals"
	if !v.doc.Has("blocks.min") && !v.doc.Has("blocks.max") && !v.doc.Has("blocks.until") {
		within(v, "blocks", b.Max, 1, MaxTrials, hint)
		return
	}
	within(v, "blocks.max", b.Max, 1, MaxTrials, hint)
	// Below three blocks there is no interval, and one of three is narrow by chance.
	within(v, "blocks.min", b.Min, minSequential, MaxTrials, "a run that may stop early needs enough blocks for the width to mean something")
	if b.Min > b.Max {
		v.report("blocks.max", "", "%d is less than the %d of min", b.Max, b.Min)
	}
	if b.Until == nil {
		v.report("blocks", `write until: "`+precisionExample+`", or blocks: 6`, "min and max need until: how narrow the interval must be")
	}
}

// minSequential is the least number of blocks before which a run does not stop.
// With fewer the deviation that the width rests on is too often small by chance,
// and the interval of a run that stopped there covers less than it says (the
// simulation in internal/answer/stats shows how much).
const minSequential = 5
