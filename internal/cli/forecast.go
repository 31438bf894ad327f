package cli

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"
	"strings"

	"github.com/HdrHistogram/hdrhistogram-go"
	"github.com/spf13/cobra"

	"github.com/tare-mesh/tare/internal/answer"
	"github.com/tare-mesh/tare/internal/base/hint"
	"github.com/tare-mesh/tare/internal/base/outfile"
	"github.com/tare-mesh/tare/internal/base/regular"
	"github.com/tare-mesh/tare/internal/base/strict"
	"github.com/tare-mesh/tare/internal/cli/console"
	"github.com/tare-mesh/tare/internal/compare"
	"github.com/tare-mesh/tare/internal/experiment/app"
	"github.com/tare-mesh/tare/internal/figures"
	"github.com/tare-mesh/tare/internal/predict"
	"github.com/tare-mesh/tare/internal/result"
	"github.com/tare-mesh/tare/internal/show/page"
	"github.com/tare-mesh/tare/internal/show/report"
	"github.com/tare-mesh/tare/internal/study/callgraph"
)

type forecastOptions struct {
	graph, format, prices string
	rates, from           []string
	output                outfile.File
}

func newForecastCommand(c *CommandLine) *cobra.Command {
	o := forecastOptions{format: "text"}
	names := report.Names(forecastsForms())
	cmd := &cobra.Command{
		Use:   "forecast --graph FILE --rate N [RUN…]",
		Short: "Say what a mesh would cost an application that was not measured",
		Long: `forecast prints the CPU and memory of the sidecars of an application, what they add to
its median response, and with --prices their price. In brackets is the range of a new
deployment. A control plane costs what the runs measured. If one of them has several
numbers of proxies or services, it is read at yours; otherwise forecast prints the
command that measures them.

The graph is one of
  services, their calls and the sizes of messages, as in examples/graphs/shop.yaml
  traces in JSON, of Jaeger or OpenTelemetry
  istio_requests_total, as a proxy prints it, or as Prometheus answers a query of a
  range: that has the rates too, and --rate is not needed

Runs have the cost of a call: at least three rates and three blocks (repetitions) of a
service that calls no other, for each protocol of the graph. Without a run it reads the
newest one. Each call is predicted from the first run that has its rate and sizes. A run
of services that call others, such as the topology callers, has the memory of each called
service. Without it, that memory is assumed and in the range.

What was not measured is refused, with the command that measures it. Sidecars below the
measured rates have a wide range. Latency is refused where requests queue.`,
		Example: `  tare run examples/quickstart.yaml --set 'factors.rate=[50, 150, 400, 1000]' --set 'factors.responseSize=[500, 16KiB]' --out runs/curve
  tare forecast --graph examples/graphs/shop.yaml --rate 300 --from runs/curve
  tare forecast --graph app.yaml --rate checkout=300 --rate admin=5 --from runs/curve runs/callers
  tare forecast --graph chain-3 --rate 200 --prices examples/prices-gcp.yaml --format html -o forecast.html
  tare forecast --graph traces.json --rate 300 --from runs/curve`,
		Args: cobra.ArbitraryArgs,
		RunE: func(_ *cobra.Command, args []string) error {
			o.from = append(o.from, args...)
			f, err := c.forecasts(o)
			if err != nil {
				return err
			}
			return c.writeTo(string(o.output), func(w io.Writer) error { return report.Write(w, f, forecastsForms(), o.format) })
		},
	}
	f := cmd.Flags()
	f.StringVar(&o.graph, "graph", "", "`file` of services and their calls, of traces or of metrics, or the name of a topology")
	f.StringArrayVar(&o.rates, "rate", nil, "`[SERVICE=]N`: requests per second from outside, at the entry or another service; repeatable")
	f.StringArrayVar(&o.from, "from", nil, "results `directory` with curves; repeatable; default: the newest run with several rates")
	f.StringVar(&o.prices, "prices", "", "`file` of prices, such as examples/prices-gcp.yaml")
	f.VarP(&o.output, "output", "o", "write to this `file` instead of standard output")
	_ = cmd.MarkFlagFilename("prices", "yaml", "yml")
	_ = cmd.MarkFlagDirname("from")
	_ = cmd.RegisterFlagCompletionFunc("graph", func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
		return app.Names(), cobra.ShellCompDirectiveDefault
	})
	choice(cmd, &o.format, "format", "output format: "+strings.Join(names, ", "), names)
	return cmd
}

func forecastsForms() []report.Form[report.Forecasts] {
	write := func(w io.Writer, f report.Forecasts) error { return page.WriteForecasts(w, f, console.Version()) }
	return append(report.ForecastsForms(), report.Form[report.Forecasts]{Name: "html", Doc: "one page with figures", Write: write})
}

func (c *CommandLine) forecasts(o forecastOptions) (report.Forecasts, error) {
	none := report.Forecasts{}
	if o.graph == "" {
		return none, hint.Usage(errors.New("--graph is missing"), "write a file of services and their calls, such as examples/graphs/shop.yaml")
	}
	a, err := readGraph(o.graph)
	if err != nil {
		return none, hint.InvalidFile(err)
	}
	for _, n := range a.Notes {
		c.Notef("%s", n)
	}
	g, rates := a.Graph, a.Rates
	if len(o.rates) > 0 || rates == nil {
		if rates, err = entryRates(o.rates, g.Entry); err != nil {
			return none, err
		}
	}
	prices, err := pricesOf(o.prices)
	if err != nil {
		return none, err
	}
	var month *predict.Prices
	if prices != nil {
		month = &predict.Prices{Core: prices.MonthOf(1, 0), MiB: prices.MonthOf(0, 1)}
	}
	flow, err := g.Spread(rates)
	if err != nil {
		return none, fmt.Errorf("forecast %s: %w", g.Name, err)
	}
	paths, err := c.curves(o.from, g.Command(flow, ""))
	if err != nil {
		return none, err
	}
	sources, closeAll, err := sourcesOf(paths)
	defer closeAll()
	if err != nil {
		return none, err
	}
	costs, err := predict.CostsOf(sources)
	if err != nil {
		return none, fmt.Errorf("forecast %s: %w", g.Name, err)
	}
	all, err := predict.Forecasts(costs, g, rates, month)
	if err != nil {
		return none, fmt.Errorf("forecast %s: %w", g.Name, err)
	}
	return report.NewForecasts(paths, g, rates, all, predict.NextOf(sources, all), prices)
}

// pricesOf reads a file of prices, nil without one.
func pricesOf(file string) (*answer.Prices, error) {
	if file == "" {
		return nil, nil
	}
	prices, err := answer.ReadPrices(file)
	if err != nil {
		return nil, hint.InvalidFile(err)
	}
	return prices, nil
}

// sourcesOf opens the runs with the costs of calls.
func sourcesOf(paths []string) (sources []predict.Source, closeAll func(), err error) {
	dirs, closeAll, err := openAll(paths)
	if err != nil {
		return nil, closeAll, err
	}
	for _, d := range dirs {
		run, err := compare.Read(d, compare.Options{})
		if err != nil {
			return nil, closeAll, err
		}
		sources = append(sources, predict.Source{Dir: d.Path(), Run: run, Times: func(r *result.Record) (*hdrhistogram.Histogram, error) {
			return figures.ResponseTimes(d, r)
		}})
	}
	return sources, closeAll, nil
}

// readGraph reads an application: a topology by name or file, traces, or the metrics of a mesh.
func readGraph(name string) (a callgraph.Application, err error) {
	if slices.Contains(app.Names(), name) {
		a.Graph.Topology, err = app.Load(name)
		return a, err
	}
	data, err := regular.ReadInput(name, callgraph.MaxBytes)
	switch {
	case errors.Is(err, fs.ErrNotExist) && !app.IsFile(name):
		return a, hint.Usage(fmt.Errorf("--graph %.60q is neither a topology nor a file", name), "write a path such as ./app.yaml, or one of "+strings.Join(app.Names(), ", "))
	case err != nil:
		return a, err
	case callgraph.Known(data):
		return callgraph.Read(name, data)
	}
	doc, err := strict.Parse(name, data)
	if err != nil {
		return a, err
	}
	a.Graph.Where = func(service, call int) string {
		path := fmt.Sprintf("services[%d]", service)
		if call >= 0 {
			path += fmt.Sprintf(".calls[%d]", call)
		}
		at := doc.At(path)
		return fmt.Sprintf("%s:%d:%d", at.File, at.Line, at.Column)
	}
	a.Graph.Topology, err = app.Decode(name, data)
	return a, err
}

// entryRates reads rates from outside. Without a service it is the rate of the entry.
func entryRates(texts []string, entry string) (map[string]float64, error) {
	if len(texts) == 0 {
		return nil, hint.Usage(errors.New("--rate is missing"), "write the requests/s from outside: --rate 300, or --rate checkout=300")
	}
	rates := map[string]float64{}
	for _, text := range texts {
		name, number, named := strings.Cut(text, "=")
		if !named {
			name, number = entry, text
		}
		n, err := strict.Number(number)
		if err != nil || !(n > 0) {
			return nil, hint.Usage(fmt.Errorf("--rate %.60q is not a number above 0", text), "write the requests/s from outside: --rate 300, or --rate checkout=300")
		}
		if _, twice := rates[name]; twice {
			return nil, hint.Usage(fmt.Errorf("--rate has %s twice", name), "write one rate for each service")
		}
		rates[name] = n
	}
	return rates, nil
}
