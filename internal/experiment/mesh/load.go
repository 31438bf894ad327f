package mesh

import (
	"embed"
	"errors"
	"fmt"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/tare-mesh/tare/internal/base/hint"
	"github.com/tare-mesh/tare/internal/base/lists"
	"github.com/tare-mesh/tare/internal/base/strict"
)

//go:embed definitions/*.yaml
var embedded embed.FS

// builtin is every embedded definition in the order of their names.
var builtin = sync.OnceValue(func() []Definition {
	all := decodeAll(embedded, "definitions", Decode)
	for _, d := range all {
		if d.Local != nil {
			d.Local.Sidecar.Dir = "" // there is no such directory
		}
	}
	slices.SortFunc(all, func(a, b Definition) int { return strings.Compare(a.Name, b.Name) })
	return all
})

// decodeAll decodes the embedded files of a directory. A file that does not load is a
// mistake of this build, and a test finds it first.
func decodeAll[T any](files embed.FS, dir string, decode func(name string, data []byte) (T, error)) []T {
	entries, err := files.ReadDir(dir)
	if err != nil {
		panic(err)
	}
	var all []T
	for _, e := range entries {
		file := path.Join(dir, e.Name())
		data, err := files.ReadFile(file)
		if err == nil {
			var one T
			if one, err = decode(file, data); err == nil {
				all = append(all, one)
				continue
			}
		}
		panic(fmt.Sprintf("embedded file: %v", err))
	}
	return all
}

// Load returns an embedded definition by name, or reads one
// from a file when nameOrPath contains a slash or ends in .yaml. The mistakes
// in a file are [strict.Problems].
func Load(nameOrPath string) (Definition, error) {
	if !IsPath(nameOrPath) {
		for _, d := range builtin() {
			if d.Name == nameOrPath {
				return d, nil
			}
		}
		return Definition{}, fmt.Errorf("unknown mesh %q: known are %s, or the path of a .yaml file",
			nameOrPath, strings.Join(Names(), ", "))
	}
	data, err := strict.ReadFile(nameOrPath)
	if err != nil {
		return Definition{}, fmt.Errorf("read mesh definition: %w", err)
	}
	return Decode(nameOrPath, data)
}

// Collect lists the embedded definitions and the definitions in files, by
// name. Every file is read before the mistakes of all are returned. A file that
// takes a name another has is a mistake as well.
func Collect(files ...string) ([]Definition, error) {
	all := Builtin()
	var mistakes []error
	for _, file := range files {
		data, err := strict.ReadFile(file)
		if err != nil {
			mistakes = append(mistakes, notAFile(file, err))
			continue
		}
		d, err := Decode(file, data)
		if err != nil {
			mistakes = append(mistakes, err)
			continue
		}
		if slices.ContainsFunc(all, func(o Definition) bool { return o.Name == d.Name }) {
			mistakes = append(mistakes, fmt.Errorf("%s: name: there is a mesh %q already", file, d.Name))
			continue
		}
		all = append(all, d)
	}
	slices.SortStableFunc(all, func(a, b Definition) int { return strings.Compare(a.Name, b.Name) })
	return all, errors.Join(mistakes...)
}

// Builtin lists the definitions that come with tare, by name.
func Builtin() []Definition {
	return append([]Definition(nil), builtin()...)
}

// notAFile is the error of a definition that cannot be read. Its path may be the name of an embedded one.
func notAFile(path string, err error) error {
	err = fmt.Errorf("read mesh definition: %w", err)
	if IsPath(path) || !slices.Contains(Names(), path) {
		return err
	}
	return hint.Wrap(err, fmt.Sprintf("--mesh adds the file of a definition; %s needs none: --set 'factors.mesh=[none, %s]'", path, path))
}

// Names lists the names of the definitions that come with tare, in order.
func Names() []string {
	return lists.Map(builtin(), func(d Definition) string { return d.Name })
}

// IsPath reports whether a mesh is the path of a file, not the name of an embedded
// definition.
func IsPath(nameOrPath string) bool {
	return strings.Contains(nameOrPath, "/") || strings.HasSuffix(nameOrPath, ".yaml")
}

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
