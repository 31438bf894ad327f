package cli

import (
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/tare-mesh/tare/internal/answer"
	"github.com/tare-mesh/tare/internal/base/hint"
	"github.com/tare-mesh/tare/internal/base/strict"
	"github.com/tare-mesh/tare/internal/compare"
	"github.com/tare-mesh/tare/internal/experiment"
	"github.com/tare-mesh/tare/internal/predict"
	"github.com/tare-mesh/tare/internal/result"
	"github.com/tare-mesh/tare/internal/show/report"
)

// sizeOptions are the flags of tare size.
type sizeOptions struct {
	from, headroom, format, prices string
	rate                           float64
	connections, connectionRate    float64
	requestSize, responseSize      string
	options                        map[string]string
}

func newSizeCommand(c *CommandLine) *cobra.Command {
	o := sizeOptions{headroom: "30%", format: "text"}
	names := report.Names(report.SizesForms())
	cmd := &cobra.Command{
		Use:   "size --rate N",
		Short: "Say which requests and limits a proxy needs at a rate",
		Long: `size reads a run with at least three rates and three blocks, and prints the CPU and
memory that each proxy in the way of the load needs at a rate between them: requests
and limits, with headroom. Without --from it reads the newest run. If the run has
several connections, sizes of messages, or numbers in an option of a mesh, the curve
goes over them too: --connections, --request-size, --response-size, --option.

A curve goes through the rates of each block. Its form is the one that predicts blocks
it was not fitted to best. The range for another deployment has the deviation between
blocks. What lies outside the measured range is refused.

With --prices it prints the price of a month, of what is requested and of what is used.
--format values prints the values of the mesh's chart.`,
		Example: `  tare run examples/quickstart.yaml --set 'factors.rate=[200, 500, 1000]' --out runs/curve
  tare size --from runs/curve --rate 800
  tare size --from runs/curve --rate 800 --headroom 50% --prices examples/prices-gcp.yaml
  tare size --from runs/istio-curve --rate 800 --connections 200 --format values`,
		Args: cobra.NoArgs,
		RunE: func(_ *cobra.Command, _ []string) error {
			s, err := c.sizes(o)
			if err != nil {
				return err
			}
			return report.Write(c.Out, s, report.SizesForms(), o.format)
		},
	}
	f := cmd.Flags()
	f.StringVar(&o.from, "from", "", "results `directory`; default: the newest run")
	f.Float64Var(&o.rate, "rate", 0, "`requests` per second through one proxy")
	f.Float64Var(&o.connections, "connections", 0, "`number` of connections through one proxy, if the run has several")
	f.Float64Var(&o.connectionRate, "connection-rate", 0, "new `connections` per second through one proxy, if the run has several")
	f.StringVar(&o.requestSize, "request-size", "", "`bytes` of a request's body, if the run has several")
	f.StringVar(&o.responseSize, "response-size", "", "`bytes` of a response's body, if the run has several")
	f.StringToStringVar(&o.options, "option", nil, "`NAME=N`: an option of meshes that is a number, such as clusters=3000")
	f.StringVar(&o.headroom, "headroom", o.headroom, "`share` to add to what was measured")
	f.StringVar(&o.prices, "prices", "", "`file` of prices, such as examples/prices-gcp.yaml")
	_ = cmd.MarkFlagFilename("prices", "yaml", "yml")
	choice(cmd, &o.format, "format", "output format: "+strings.Join(names, ", "), names)
	return cmd
}

func (c *CommandLine) sizes(o sizeOptions) (report.Sizes, error) {
	s, err := o.sizing()
	if err != nil {
		return report.Sizes{}, err
	}
	var prices *answer.Prices
	if o.prices != "" {
		if prices, err = answer.ReadPrices(o.prices); err != nil {
			return report.Sizes{}, hint.InvalidFile(err)
		}
	}
	var dirs []string
	if o.from != "" {
		dirs = []string{o.from}
	}
	dirs, err = c.orNewest(dirs)
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
	return report.NewSizes(d.Path(), s, all, prices), nil
}

// sizing returns the load and the headroom of the flags.
func (o sizeOptions) sizing() (predict.Sizing, error) {
	if !(o.rate > 0) {
		return predict.Sizing{}, hint.Usage(errors.New("--rate is missing, or not above 0"), "write the requests/s through one proxy: --rate 800")
	}
	var share experiment.Share
	if err := share.UnmarshalScalar(o.headroom); err != nil && o.headroom != "0" {
		return predict.Sizing{}, hint.Usage(fmt.Errorf("--headroom: %w", err), "write 0, or a share such as 30%")
	}
	s := predict.Sizing{Rate: o.rate, Headroom: float64(share), At: map[string]float64{}}
	for factor, n := range map[string]float64{experiment.ConnectionsFactor: o.connections, experiment.ConnectionRateFactor: o.connectionRate} {
		if n != 0 {
			s.At[factor] = n
		}
	}
	for _, f := range []struct{ flag, factor, text string }{
		{"request-size", experiment.RequestSizeFactor, o.requestSize},
		{"response-size", experiment.ResponseSizeFactor, o.responseSize},
	} {
		if f.text == "" {
			continue
		}
		var size experiment.Size
		if err := size.UnmarshalScalar(f.text); err != nil {
			return s, hint.Usage(fmt.Errorf("--%s: %w", f.flag, err), "")
		}
		s.At[f.factor] = float64(size)
	}
	for name, text := range o.options {
		n, err := strict.Number(text)
		if err != nil {
			return s, hint.Usage(fmt.Errorf("--option %s: found %.40q, expected a number", name, text), "write the option of a mesh and its number: --option clusters=3000")
		}
		s.At[name] = n
	}
	return s, nil
}
