package cli

import (
	"github.com/spf13/cobra"

	"github.com/tare-mesh/tare/internal/experiment"
)

func newSchemaCommand(c *CommandLine) *cobra.Command {
	return &cobra.Command{
		Use:   "schema",
		Short: "Print the JSON Schema of the experiment file",
		Long: `schema prints the JSON Schema of the experiment file, so that an editor completes
and checks it. Editors that use the YAML language server read it from a first line
in the file:

  # yaml-language-server: $schema=tare.schema.json`,
		Example: "  tare schema > tare.schema.json",
		Args:    cobra.NoArgs,
		RunE: func(_ *cobra.Command, _ []string) error {
			text, err := experiment.Schema(c.program.Names())
			if err != nil {
				return err
			}
			_, err = c.Out.Write(text)
			return err
		},
	}
}
