package experiment

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"

	"github.com/tare-mesh/tare/internal/metric"
)

// Blocks is the number of repetitions of every treatment: fixed, until an interval has a given precision, or until as many
// as min have valid trials only.
type Blocks struct {
	Min   int        `yaml:"min" json:"min"`
	Max   int        `yaml:"max" json:"max"` // planned
	Until *Precision `yaml:"until,omitempty" json:"until,omitempty"`
}

// bound is the number of planned blocks.
func (b Blocks) bound() any { return b.Max }

// ShortForm reads a number.
func (b *Blocks) ShortForm() (any, func()) {
	n := new(int)
	return n, func() { *b = Fixed(*n) }
}

// Fixed returns a number of blocks that does not depend on results.
func Fixed(n int) Blocks { return Blocks{Min: n, Max: n} }

// MarshalYAML writes a number, or the mapping.
func (b Blocks) MarshalYAML() (any, error) {
	if b.Until == nil {
		return b.Max, nil
	}
	type plain Blocks
	return plain(b), nil
}

// MarshalJSON writes the same as MarshalYAML.
func (b Blocks) MarshalJSON() ([]byte, error) {
	if b.Until == nil {
		return json.Marshal(b.Max)
	}
	type plain Blocks
	return json.Marshal(plain(b))
}

// Precision is half of the largest width of a metric's interval. Valid is the other rule: min blocks without an invalid
// trial.
type Precision struct {
	Valid    bool
	Metric   string
	Half     float64 // in percent, or in the metric's unit
	Relative bool    // to the treatment's estimate
	text     string
}

func (p Precision) String() string { return p.text }

// MarshalText writes what UnmarshalScalar reads.
func (p Precision) MarshalText() ([]byte, error) { return []byte(p.text), nil }

// precisionExample is a valid Precision for messages and help.
const precisionExample = metric.CPUPerRequest + "/total ±2%"

// Wants describes the text for messages.
func (Precision) Wants() string {
	return "a metric and half of a width, such as " + precisionExample
}

// UntilValid is the text of a [Precision] that is Valid.
const UntilValid = "valid"

// UnmarshalScalar reads "<metric> ±<number>[%|unit]", or "valid". "+-" will do for "±".
func (p *Precision) UnmarshalScalar(text string) error {
	if text == UntilValid {
		*p = Precision{Valid: true, text: text}
		return nil
	}
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
