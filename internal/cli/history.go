package cli

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/tare-mesh/tare/internal/base/hint"
	"github.com/tare-mesh/tare/internal/cli/console"
	"github.com/tare-mesh/tare/internal/compare"
	"github.com/tare-mesh/tare/internal/result"
	"github.com/tare-mesh/tare/internal/show/page"
	"github.com/tare-mesh/tare/internal/show/report"
)

// historyAlpha is the default significance level of a history.
const historyAlpha = 0.05

func newHistoryCommand(c *CommandLine) *cobra.Command {
	format, alpha := "text", historyAlpha
	var names []string
	for _, f := range historyFormats(report.Options{}) {
		names = append(names, f.Name)
	}
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
			for _, f := range historyFormats(report.Options{Width: console.Width(c.Out)}) {
				if f.Name == format {
					h, err := histories(args, alpha)
					if err != nil {
						return err
					}
					return f.Write(c.Out, h)
				}
			}
			return hint.Usage(fmt.Errorf("unknown format %q", format), "formats: "+strings.Join(names, ", "))
		},
	}
	f := cmd.Flags()
	f.StringVar(&format, "format", format, "report format: "+strings.Join(names, ", "))
	f.Float64Var(&alpha, "alpha", alpha, "significance level: probability of a false change point in each series")
	return cmd
}

// historyFormats are the formats of a history, the default first.
func historyFormats(o report.Options) []report.HistoryFormat {
	return append(report.HistoryFormats(o), report.HistoryFormat{Name: pageFormat().Name, Write: page.WriteHistory})
}

func histories(paths []string, alpha float64) (*compare.History, error) {
	var dirs []*result.Dir
	for _, p := range paths {
		d, err := result.Open(p)
		if err != nil {
			return nil, err
		}
		defer d.Close()
		dirs = append(dirs, d)
	}
	return compare.Histories(dirs, alpha, compare.Options{})
}
