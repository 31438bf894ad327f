package cli

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/tare-mesh/tare/internal/base/hint"
	"github.com/tare-mesh/tare/internal/cli/console"
	"github.com/tare-mesh/tare/internal/compare"
	"github.com/tare-mesh/tare/internal/show/page"
	"github.com/tare-mesh/tare/internal/show/report"
)

// historyAlpha is the default significance level of a history.
const historyAlpha = 0.05

func newHistoryCommand(c *CommandLine) *cobra.Command {
	format, alpha := "text", historyAlpha
	names := report.Names(historyForms(report.Options{}))
	cmd := &cobra.Command{
		Use:   "history DIR…",
		Short: "Find change points in a series of runs",
		Long: `history reads at least 8 runs of one experiment, and finds change points in the
headline metrics of each treatment. It prints the values before and after, and the
probability of such a step by chance. It lists changes of conditions between runs.`,
		Example: `  tare history runs/nightly-*`,
		Args:    cobra.MinimumNArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			if !(alpha > 0 && alpha < 0.5) {
				return hint.Usage(fmt.Errorf("--alpha is %v", alpha), "write a number above 0 and below 0.5, such as 0.05")
			}
			h, err := histories(args, alpha)
			if err != nil {
				return err
			}
			return report.Write(c.Out, h, historyForms(report.Options{Width: console.Width(c.Out)}), format)
		},
	}
	choice(cmd, &format, "format", "report format: "+strings.Join(names, ", "), names)
	cmd.Flags().Float64Var(&alpha, "alpha", alpha, "significance level: probability of a false change point in each series")
	return cmd
}

// historyForms are the forms of a history, the default first.
func historyForms(o report.Options) []report.Form[*compare.History] {
	return append(report.HistoryForms(o), report.Form[*compare.History]{Name: pageFormat().Name, Doc: pageFormat().Doc, Write: page.WriteHistory})
}

func histories(paths []string, alpha float64) (*compare.History, error) {
	dirs, closeAll, err := openAll(paths)
	defer closeAll()
	if err != nil {
		return nil, err
	}
	return compare.Histories(dirs, alpha, compare.Options{})
}
