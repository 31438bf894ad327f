package cli

import (
	"errors"
	"fmt"
	"os"
	"reflect"

	"github.com/spf13/cobra"

	"github.com/tare-mesh/tare/internal/answer/analysis"
	"github.com/tare-mesh/tare/internal/base/hint"
	"github.com/tare-mesh/tare/internal/base/outfile"
	"github.com/tare-mesh/tare/internal/base/strict"
	"github.com/tare-mesh/tare/internal/experiment"
	"github.com/tare-mesh/tare/internal/load/template"
)

func newConvertCommand(c *CommandLine) *cobra.Command {
	var write bool
	cmd := &cobra.Command{
		Use:   "convert FILE…",
		Short: "Convert experiment and price files to the current version",
		Long: `convert prints a file of an earlier version in the current one, ` + experiment.APIVersion + `.
Only the values that differ are replaced: comments and layout remain. Both files are
then read, and must mean the same. A file with a mistake is not converted.

Conversion is optional: earlier versions are read as well.`,
		Example: `  tare convert experiment.yaml > converted.yaml
  tare convert --write experiments/*.yaml`,
		Args: cobra.MinimumNArgs(1),
		RunE: func(_ *cobra.Command, files []string) error {
			if len(files) > 1 && !write {
				return hint.Usage(errors.New("several files are converted in place only"), "add --write, or give one file")
			}
			return converter{c}.convert(files, write)
		},
	}
	cmd.Flags().BoolVarP(&write, "write", "w", false, "replace the files")
	return cmd
}

// converter is `tare convert`.
type converter struct{ *CommandLine }

// converted is a file in the current version.
type converted struct {
	file    string
	text    []byte
	changes []experiment.Change
}

// convert changes no file unless all can be converted.
func (c converter) convert(files []string, write bool) error {
	var all []converted
	for _, file := range files {
		f, err := c.one(file)
		if err == nil && write {
			err = replaceable(file)
		}
		if err != nil {
			return err
		}
		all = append(all, f)
	}
	for _, f := range all {
		if write && len(f.changes) > 0 {
			if err := outfile.WriteFile(f.file, f.text, 0o644); err != nil {
				return err
			}
		}
		for _, change := range f.changes {
			c.Notef("%s:%d: %s: %s", f.file, change.Line, change.Path, change.New)
		}
		if len(f.changes) == 0 {
			c.Notef("%s: unchanged, it is %s", f.file, experiment.APIVersion)
		}
	}
	if write {
		return nil
	}
	_, err := c.Out.Write(all[0].text)
	return err
}

// one converts a file, and reads it before and after.
func (c converter) one(file string) (converted, error) {
	f := converted{file: file}
	data, err := strict.ReadFile(file)
	if err == nil {
		f.text, f.changes, err = experiment.Convert(file, data)
	}
	if err != nil {
		return f, hint.InvalidFile(err)
	}
	before, err := c.read(file, data)
	if err != nil {
		return f, hint.InvalidFile(err)
	}
	after, err := c.read(file, f.text)
	if err != nil {
		return f, fmt.Errorf("%s: converted, it cannot be read: %w", file, err)
	}
	if !reflect.DeepEqual(before, after) {
		return f, fmt.Errorf("%s: converted, it would be another experiment", file)
	}
	return f, nil
}

// read is the content of a file, whatever its version. Names of meshes are not checked: their definitions can be files.
func (c converter) read(file string, data []byte) (any, error) {
	doc, err := strict.Parse(file, data)
	if err != nil {
		return nil, err
	}
	if kind, _ := doc.Text("kind"); kind == analysis.PricesKind {
		prices, err := analysis.DecodePrices(file, data)
		if err != nil {
			return nil, err
		}
		prices.APIVersion = experiment.APIVersion
		return prices, nil
	}
	known := c.catalog.known()
	known.Meshes, known.Targets = nil, func(path string, texts *template.Reader, instants bool) ([]experiment.Request, error) {
		return experimentTargets(path, texts, instants, c.Notef)
	}
	return experiment.Decode(file, data, known)
}

// replaceable refuses what was read and cannot be read again.
func replaceable(file string) error {
	info, err := os.Stat(file)
	if err == nil && !info.Mode().IsRegular() {
		err = hint.Usage(fmt.Errorf("%s is not a regular file", file), "leave out --write to print the converted file")
	}
	return err
}
