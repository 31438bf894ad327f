package cli

import (
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/tare-mesh/tare/internal/base/hint"
	"github.com/tare-mesh/tare/internal/compare"
	"github.com/tare-mesh/tare/internal/experiment"
	"github.com/tare-mesh/tare/internal/predict"
	"github.com/tare-mesh/tare/internal/result"
	"github.com/tare-mesh/tare/internal/show/report"
)

// sizeSchema is the schema of the sizes as JSON.
const sizeSchema = "tare.size/v1"

func newSizeCommand(c *CommandLine) *cobra.Command {
	var from string
	var rate float64
	headroom, format := "30%", "text"
	names := report.Names(report.SizesForms())
	cmd := &cobra.Command{
		Use:   "size --rate N",
		Short: "Say which requests and limits a proxy needs at a rate",
		Long: `size reads a run with at least three rates and three blocks, and prints the CPU and
memory that each proxy in the way of the load needs at a rate between them: requests
and limits, with headroom. Without --from it reads the newest run.

A curve goes through the rates of each block. Its form is the one that predicts blocks
it was not fitted to best. The range for another deployment has the deviation between
blocks. A rate outside the measured ones is refused.`,
		Example: `  tare run examples/quickstart.yaml --set 'factors.rate=[200, 500, 1000]' --out runs/curve
  tare size --from runs/curve --rate 800
  tare size --from runs/curve --rate 800 --headroom 50% --format yaml`,
		Args: cobra.NoArgs,
		RunE: func(_ *cobra.Command, _ []string) error {
			if !(rate > 0) {
				return hint.Usage(errors.New("--rate is missing, or not above 0"), "write the requests/s through one proxy: --rate 800")
			}
			var share experiment.Share
			if err := share.UnmarshalScalar(headroom); err != nil && headroom != "0" {
				return hint.Usage(fmt.Errorf("--headroom: %w", err), "write 0, or a share such as 30%")
			}
			s, err := c.sizes(from, predict.Sizing{Rate: rate, Headroom: float64(share)})
			if err != nil {
				return err
			}
			return report.Write(c.Out, s, report.SizesForms(), format)
		},
	}
	f := cmd.Flags()
	f.StringVar(&from, "from", "", "results `directory`; default: the newest run")
	f.Float64Var(&rate, "rate", 0, "`requests` per second through one proxy")
	f.StringVar(&headroom, "headroom", headroom, "`share` to add to what was measured")
	choice(cmd, &format, "format", "output format: "+strings.Join(names, ", "), names)
	return cmd
}

func (c *CommandLine) sizes(from string, s predict.Sizing) (report.Sizes, error) {
	var dirs []string
	if from != "" {
		dirs = []string{from}
	}
	dirs, err := c.orNewest(dirs)
	if err != nil {
		return report.Sizes{}, err
	}
	d, err := result.Open(dirs[0])
	if err != nil {
		return report.Sizes{}, err
	}
	defer d.Close()
	run, err := compare.Read(d, compare.Options{})
	if err != nil {
		return report.Sizes{}, err
	}
	all, err := predict.Sizes(run, s)
	if err != nil {
		return report.Sizes{}, fmt.Errorf("size %s: %w", d.Path(), err)
	}
	return report.Sizes{Schema: sizeSchema, From: d.Path(), For: s, Sizes: all}, nil
}
