package cli

import (
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/tare-mesh/tare/internal/base/hint"
	"github.com/tare-mesh/tare/internal/base/outfile"
	"github.com/tare-mesh/tare/internal/metric"
	"github.com/tare-mesh/tare/internal/show/page"
)

type plotOptions struct {
	figure, theme string
	output        outfile.File
	width         float64 // mm
	choose        []string
	noTitle       bool
}

var figureThemes = []string{"light", "dark"}

func newPlotCommand(c *CommandLine) *cobra.Command {
	o := plotOptions{figure: page.Figures[0].ID, theme: figureThemes[0], width: 180}
	var names []string
	var list strings.Builder
	for _, f := range page.Figures {
		names = append(names, f.ID)
		fmt.Fprintf(&list, "  %-12s %s\n", f.ID, f.Doc)
	}
	cmd := &cobra.Command{
		Use:   "plot [DIR…]",
		Short: "Write a figure of a report as SVG",
		Long: `plot writes a figure of the page that tare report --format html makes, without a browser.
The same results give the same bytes. In the page a button saves PNG, and a browser prints PDF.
tare-kube has the command; tare starts it. Without DIR it takes the newest run in runs/.

Figures:
` + strings.TrimRight(list.String(), "\n"),
		Example: `  tare plot runs/mine --figure differences -o differences.svg
  tare plot runs/mine --figure bill -o bill.svg --width 89
  tare plot runs/nightly-* --figure history -o history.svg
  tare plot runs/mine --figure trials --choose metric=` + metric.Latency + `/p99 -o p99.svg`,
		RunE: func(_ *cobra.Command, args []string) error { return c.plot(args, o) },
	}
	f := cmd.Flags()
	choice(cmd, &o.figure, "figure", "figure: "+strings.Join(names, ", "), names)
	f.VarP(&o.output, "output", "o", "write to this `file`, FILE.svg")
	f.Float64Var(&o.width, "width", o.width, "width in `mm`; a column of a paper has 89")
	choice(cmd, &o.theme, "theme", "colors: "+strings.Join(figureThemes, " or "), figureThemes)
	f.StringArrayVar(&o.choose, "choose", nil, "a choice of the figure, as in the page: `name=value`, such as metric="+metric.Latency+"/p99, trial=003-envoy-b1, part=data")
	f.BoolVar(&o.noTitle, "no-title", false, "leave out the title")
	return cmd
}

func (c *CommandLine) plot(dirs []string, o plotOptions) error {
	d, err := o.drawing()
	if err != nil {
		return err
	}
	if c.kubernetes == nil {
		return c.handOver.run(c.handOver.args)
	}
	if dirs, err = c.orNewest(dirs); err != nil {
		return err
	}
	data, err := plotData(dirs, o)
	if err != nil {
		return err
	}
	return outfile.Write(string(o.output), 0o644, func(w io.Writer) error {
		if err := c.kubernetes.Draw(w, data, d); err != nil {
			return fmt.Errorf("%s of %s: %w", o.figure, strings.Join(dirs, ", "), err)
		}
		return nil
	})
}

// Widths of figures, mm.
const narrowest, widest = 60, 1000

func (o plotOptions) drawing() (page.Drawing, error) {
	d := page.Drawing{Figure: o.figure, Choices: map[string]string{}, Width: o.width / 25.4 * 96, Columns: 1, Theme: o.theme, NoTitle: o.noTitle}
	if d.Width >= 500 {
		d.Columns = 2
	}
	var err error
	switch {
	case o.output == "":
		err = hint.Usage(errors.New("no file to write"), "add -o FILE.svg")
	case !strings.EqualFold(filepath.Ext(string(o.output)), ".svg"):
		err = hint.Usage(fmt.Errorf("%s: figures are SVG", o.output), "add -o FILE.svg; the page of `tare report --format html` saves PNG")
	case !(o.width >= narrowest && o.width <= widest):
		err = hint.Usage(fmt.Errorf("--width %v is not from %d to %d mm", o.width, narrowest, widest), "a page has about 180 mm")
	}
	for _, s := range o.choose {
		name, value, ok := strings.Cut(s, "=")
		if !ok || name == "" || value == "" {
			err = hint.Usage(fmt.Errorf("--choose %q is not name=value", s), "write it as --choose metric="+metric.Latency+"/p99")
		}
		d.Choices[name] = value
	}
	return d, err
}

// plotData are the data of the page that has the figure.
func plotData(dirs []string, o plotOptions) ([]byte, error) {
	switch o.figure {
	case "changes":
		if len(dirs) < 2 {
			return nil, hint.Usage(errors.New("one directory: changes need two"), "write tare plot BASE… NEW --figure changes")
		}
		across, err := compareDirs(dirs[:len(dirs)-1], dirs[len(dirs)-1], compareOptions{anyway: true})
		if err != nil {
			return nil, err
		}
		return page.AcrossData(across)
	case "history":
		h, err := histories(dirs)
		if err != nil {
			return nil, err
		}
		return page.HistoryData(h)
	}
	if len(dirs) > 1 {
		return nil, hint.Usage(fmt.Errorf("%d directories: figure %s is of one run", len(dirs), o.figure), "figures of several: changes, history")
	}
	options := defaultReport()
	options.ladder = o.figure == "ladder"
	a, err := analyse(dirs[0], options)
	if err != nil {
		return nil, err
	}
	defer a.Dir.Close()
	return page.Data(page.Source{Analysis: a})
}
