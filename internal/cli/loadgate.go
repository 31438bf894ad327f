package cli

import (
	"fmt"

	"github.com/tare-mesh/tare/internal/load"
	"github.com/tare-mesh/tare/internal/load/capacity"
	"github.com/tare-mesh/tare/internal/show/loadpage"
)

// parseLoadGates reads gates with commas between them.
func parseLoadGates(texts []string) ([]capacity.Bound, error) {
	var gates []capacity.Bound
	for _, text := range texts {
		bounds, err := capacity.ParseBounds(text)
		if err != nil {
			return nil, fmt.Errorf("gate %w", err)
		}
		gates = append(gates, bounds...)
	}
	return gates, nil
}

// gatesOf checks every gate against the report.
func (f *loadFlags) gatesOf(r *load.Report) (checked []loadpage.Gate) {
	figures := r.Figures()
	for _, g := range f.checkedGates {
		var text string
		holds, value, undecided := g.Check(&figures)
		switch {
		case undecided != "":
			text = fmt.Sprintf("gate %q cannot be decided: %s", g.Text, undecided)
		case holds:
			text = fmt.Sprintf("gate %q holds: %s", g.Text, g.Value(value))
		default:
			text = fmt.Sprintf("gate %q does not hold: %s", g.Text, g.Value(value))
		}
		checked = append(checked, loadpage.Gate{Text: text, Holds: holds, Undecided: undecided != ""})
	}
	return checked
}
