package cli

import (
	"github.com/spf13/cobra"

	"github.com/tare-mesh/tare/internal/answer"
	"github.com/tare-mesh/tare/internal/experiment"
)

func newSchemaCommand(c *CommandLine) *cobra.Command {
	return &cobra.Command{
		Use:   "schema [answer]",
		Short: "Print the JSON Schema of the experiment file, or of the answer in JSON results",
		Long: `schema prints the JSON Schema of the experiment file, so that an editor completes
and checks it. Editors that use the YAML language server read it from a first line
in the file:

  # yaml-language-server: $schema=tare.schema.json

With answer it prints the schema of the field answer, which every result in JSON has.`,
		Example:   "  tare schema > tare.schema.json\n  tare schema answer > answer.schema.json",
		ValidArgs: []string{"answer"},
		Args:      cobra.MatchAll(cobra.MaximumNArgs(1), cobra.OnlyValidArgs),
		RunE: func(_ *cobra.Command, args []string) error {
			build := func() ([]byte, error) { return experiment.Schema(c.program.Names()) }
			if len(args) > 0 {
				build = answer.BriefSchema
			}
			text, err := build()
			if err != nil {
				return err
			}
			_, err = c.Out.Write(text)
			return err
		},
	}
}
