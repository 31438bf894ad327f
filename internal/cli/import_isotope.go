package cli

import (
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"github.com/tare-mesh/tare/internal/base/strict"
	"github.com/tare-mesh/tare/internal/cli/console"
	"github.com/tare-mesh/tare/internal/experiment/app"
)

// newImportIsotopeCommand imports an application, where the other sources are results.
func newImportIsotopeCommand(c *CommandLine) *cobra.Command {
	var out string
	cmd := &cobra.Command{
		Use:   "isotope FILE",
		Short: "Turn a service graph of isotope into a topology",
		Long: `isotope reads a service graph as isotope's own code does and writes it as a
topology's file, which application.topology can name. Commands that are concurrent
become calls that are made alongside each other, sleeps become waits; KB and KiB are
both 1024 bytes, as there. What a topology cannot hold is said and left out.`,
		Example: "  tare import isotope canonical.yaml -o canonical-topology.yaml",
		Args:    cobra.ExactArgs(1),
		RunE:    func(_ *cobra.Command, args []string) error { return c.importIsotope(args[0], out) },
	}
	cmd.Flags().StringVarP(&out, "output", "o", "", "the `file` to write; default: standard output")
	return cmd
}

func (c *CommandLine) importIsotope(file, out string) error {
	data, err := strict.ReadFile(file)
	if err != nil {
		return console.InvalidFile(fmt.Errorf("import isotope: %w", err))
	}
	t, notes, err := app.FromIsotope(file, data)
	if err != nil {
		return console.InvalidFile(err)
	}
	for _, n := range notes {
		fmt.Fprintf(c.Err, "tare: %s\n", n)
	}
	text, err := t.YAML()
	if err != nil {
		return fmt.Errorf("import isotope: %w", err)
	}
	if out == "" {
		_, err = c.Out.Write(text)
		return err
	}
	if err := os.WriteFile(out, text, 0o600); err != nil {
		return fmt.Errorf("import isotope: %w", err)
	}
	fmt.Fprintln(c.Out, out)
	return nil
}
