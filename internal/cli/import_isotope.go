package cli

import (
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/tare-mesh/tare/internal/base/hint"
	"github.com/tare-mesh/tare/internal/base/outfile"
	"github.com/tare-mesh/tare/internal/base/strict"
	"github.com/tare-mesh/tare/internal/study/isotope"
)

// newImportIsotopeCommand converts a service graph. The other sources are results.
func newImportIsotopeCommand(c *CommandLine) *cobra.Command {
	var out outfile.File
	cmd := &cobra.Command{
		Use:   "isotope FILE",
		Short: "Convert a service graph of isotope to a topology",
		Long: `isotope converts a service graph to a topology, for application.topology. Concurrent
commands become concurrent calls, and sleeps become waits. As in isotope, KB and KiB
are both 1024 bytes. Fields that a topology cannot express are dropped and reported.`,
		Example: "  tare import isotope canonical.yaml -o canonical-topology.yaml",
		Args:    cobra.ExactArgs(1),
		RunE:    func(_ *cobra.Command, args []string) error { return c.importIsotope(args[0], out) },
	}
	cmd.Flags().VarP(&out, "output", "o", "write to this `file` (default: standard output)")
	return cmd
}

func (c *CommandLine) importIsotope(file string, out outfile.File) error {
	data, err := strict.ReadFile(file)
	if err != nil {
		return hint.InvalidFile(fmt.Errorf("import isotope: %w", err))
	}
	t, notes, err := isotope.Convert(file, data)
	if err != nil {
		return hint.InvalidFile(err)
	}
	for _, n := range notes {
		c.Notef("%s", n)
	}
	text, err := t.YAML()
	if err != nil {
		return fmt.Errorf("import isotope: %w", err)
	}
	write := func(w io.Writer) error {
		_, err := w.Write(text)
		return err
	}
	if err := c.writeTo(string(out), write); err != nil || out == "" {
		return err
	}
	fmt.Fprintln(c.Out, out)
	return nil
}
