package mesh

import (
	"errors"
	"path/filepath"
	"slices"

	"github.com/tare-mesh/tare/internal/base/strict"
)

// Decode reads one definition and validates it. The error is a
// [strict.Problems] with positions in the file name.
func Decode(name string, data []byte) (Definition, error) {
	var d Definition
	doc, err := strict.Parse(name, data)
	if err != nil {
		return d, err
	}
	doc.Decode(&d)
	v := &validation{doc: doc, text: data, d: &d}
	if d.Local != nil && len(d.Local.Sidecar.Command) > 0 {
		v.command(&d, filepath.Dir(name))
	}
	v.definition()
	if err := v.err(); err != nil {
		return Definition{}, err
	}
	if d.AtGateway() {
		if d, err = d.Gateway(""); err != nil {
			return Definition{}, err
		}
	}
	d.Text = data
	return d, nil
}

// validation collects the mistakes of one definition.
type validation struct {
	doc  *strict.Document
	text []byte
	d    *Definition
	// process is the control-plane process whose fields are checked, and control the processes before it.
	process ControlContext
	control map[string]ControlContext
	// inTemplates are problems at a line in a template. They have no path.
	inTemplates strict.Problems
}

// report adds a problem, unless the field has one already.
func (v *validation) report(path, message, hint string) {
	if v.doc.Sound(path) {
		v.doc.Report(path, message, hint)
	}
}

func (v *validation) err() error {
	err := v.doc.Err()
	if len(v.inTemplates) == 0 {
		return err
	}
	var all strict.Problems
	if err != nil && !errors.As(err, &all) {
		return err
	}
	all = append(slices.Clone(all), v.inTemplates...)
	slices.SortStableFunc(all, func(a, b strict.Problem) int { return a.Line - b.Line })
	return all
}
