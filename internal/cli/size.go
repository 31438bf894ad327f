package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/tare-mesh/tare/internal/base/hint"
	"github.com/tare-mesh/tare/internal/base/lists"
	"github.com/tare-mesh/tare/internal/base/outfile"
	"github.com/tare-mesh/tare/internal/base/printable"
	"github.com/tare-mesh/tare/internal/base/regular"
	"github.com/tare-mesh/tare/internal/base/scrape"
	"github.com/tare-mesh/tare/internal/base/strict"
	"github.com/tare-mesh/tare/internal/cli/console"
	"github.com/tare-mesh/tare/internal/compare"
	"github.com/tare-mesh/tare/internal/experiment"
	"github.com/tare-mesh/tare/internal/predict"
	"github.com/tare-mesh/tare/internal/result"
	"github.com/tare-mesh/tare/internal/session"
	"github.com/tare-mesh/tare/internal/show/page"
	"github.com/tare-mesh/tare/internal/show/report"
)

type sizeOptions struct {
	from                        []string // one results directory, or none
	headroom, format, prices    string
	objective, pods             string
	namespace, prometheus       string
	output                      outfile.File
	totalRate                   float64
	replicaCPU                  string
	rate                        float64
	connections, connectionRate float64
	requestSize, responseSize   string
	options                     map[string]string
}

func newSizeCommand(c *CommandLine) *cobra.Command {
	o := sizeOptions{headroom: "30%", format: "text", replicaCPU: "1"}
	from := ""
	names := lists.Add(report.Names(sizesForms()), report.Names(report.NeedsForms())...)
	cmd := &cobra.Command{
		Use:   "size --rate N [RUN]",
		Short: "Say which requests and limits a proxy needs at a rate",
		Long: `size prints what to write into values.yaml for a proxy: requests and limits of CPU and
memory at --rate, with headroom. It reads a run with at least four rates and three
blocks (repetitions), which tare plan --for curve proposes; without one, the newest such run.
Three rates fit any curve: the range between them is wider.

The rows requests and limits are the result. Deployments of one image differ: in
brackets is what one more may need. What was not measured is refused, with the command
that measures it. If the run has several connections, sizes of messages, or numbers in
an option of a mesh, name yours: --connections, --response-size, --option.

--format values prints the values of the mesh's chart, annotations those of a pod for
its own sidecar, yaml the resources of a container. A mesh on this machine has no chart
and no annotations. With --prices it prints the price of a month, of what is requested
and of what is used.

Variants with limits (resources) are compared with the mesh without. With --objective
it prints the lowest measured CPU limit that keeps it.

Waypoints and gateways get as many replicas of --replica-cpu as --total-rate needs. A
proxy of a node is sized for the node with most pods, with --pods FILE: a line for each
pod, the name of its node. Then --rate is through the proxy of a mean node.

A curve goes through the rates of each block. Its form is the one that best predicts
blocks left out of the fit. If all blocks deviate from each form alike, the range is
that of any bend between the measured rates, and the rate to measure next is printed.

With --namespace it sizes the sidecars that run in a namespace of the cluster of
kubectl's context. It reads their requests, and counts requests/s at their proxies for
30 s; with --prometheus, of a mean pod in the busiest two minutes of a day. CPU is scaled
to present use, if the Metrics API has it. --format patch prints annotations for kubectl
apply: tare changes nothing.`,
		Example: `  tare run examples/quickstart.yaml --set 'factors.rate=[100, 220, 490, 1100]' --out runs/curve
  tare size --from runs/curve --rate 800
  tare size --from runs/curve --rate 800 --headroom 50% --prices examples/prices-gcp.yaml
  tare size --from runs/istio-curve --rate 800 --connections 200 --format values
  tare size --from runs/limits --rate 300 --objective 'p99 < 20ms' --format html -o size.html
  tare size --from runs/ambient-curve --total-rate 10000 --replica-cpu 1
  kubectl get pods -A --no-headers -o custom-columns=NODE:.spec.nodeName > pods.txt
  tare size --from runs/ambient-curve --rate 300 --pods pods.txt
  tare size --from runs/istio-curve --namespace shop --prices examples/prices-gcp.yaml
  tare size --from runs/istio-curve --namespace shop --prometheus http://localhost:9090 --format patch`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) > 0 && from != "" {
				return hint.Usage(fmt.Errorf("two runs are named: %s and %s", from, args[0]), "write one")
			}
			if o.from = args; from != "" {
				o.from = []string{from}
			}
			if err := o.ofNamespace(cmd.Flags()); err != nil {
				return err
			}
			if o.namespace != "" {
				n, err := c.needs(cmd.Context(), o)
				if err != nil {
					return err
				}
				return c.writeTo(string(o.output), func(w io.Writer) error { return report.Write(w, n, report.NeedsForms(), o.format) })
			}
			s, err := c.sizes(o)
			if err != nil {
				return err
			}
			return c.writeTo(string(o.output), func(w io.Writer) error { return report.Write(w, s, sizesForms(), o.format) })
		},
	}
	f := cmd.Flags()
	f.StringVar(&from, "from", "", "results `directory`; default: the newest run with several rates")
	f.Float64Var(&o.rate, "rate", 0, "`requests` per second through one proxy")
	f.Float64Var(&o.connections, "connections", 0, "`number` of connections through one proxy, if the run has several")
	f.Float64Var(&o.connectionRate, "connection-rate", 0, "new `connections` per second through one proxy, if the run has several")
	f.StringVar(&o.requestSize, "request-size", "", "`bytes` of a request's body, if the run has several")
	f.StringVar(&o.responseSize, "response-size", "", "`bytes` of a response's body, if the run has several")
	f.StringToStringVar(&o.options, "option", nil, "`NAME=N`: an option of meshes that is a number, such as clusters=3000")
	f.StringVar(&o.headroom, "headroom", o.headroom, "`share` to add to what was measured")
	f.StringVar(&o.objective, "objective", "", "`limit` of response times, such as 'p99 < 20ms', for the CPU limit")
	f.Float64Var(&o.totalRate, "total-rate", 0, "`requests` per second through all replicas of a waypoint or gateway")
	f.StringVar(&o.replicaCPU, "replica-cpu", o.replicaCPU, "`CPU` request of a replica of a waypoint or gateway, such as 500m")
	f.StringVar(&o.pods, "pods", "", "`file` with a line for each pod, the name of its node, for proxies of nodes")
	f.StringVarP(&o.namespace, "namespace", "n", "", "size the sidecars that run in this `namespace` of a cluster")
	f.StringVar(&o.prometheus, "prometheus", "", "`URL` of a Prometheus with istio_requests_total, with --namespace")
	f.VarP(&o.output, "output", "o", "write to this `file` instead of standard output")
	f.StringVar(&o.prices, "prices", "", "`file` of prices, such as examples/prices-gcp.yaml")
	_ = cmd.MarkFlagFilename("prices", "yaml", "yml")
	choice(cmd, &o.format, "format", "output format: "+strings.Join(names, ", "), names)
	return cmd
}

func sizesForms() []report.Form[report.Sizes] {
	write := func(w io.Writer, s report.Sizes) error { return page.WriteSizes(w, s, console.Version()) }
	return append(report.SizesForms(), report.Form[report.Sizes]{Name: "html", Doc: "one page with figures", Write: write})
}

func (c *CommandLine) sizes(o sizeOptions) (report.Sizes, error) {
	s, err := o.sizing()
	if err != nil {
		return report.Sizes{}, err
	}
	prices, err := pricesOf(o.prices)
	if err != nil {
		return report.Sizes{}, err
	}
	dirs, err := c.curves(o.from, predict.CurveCommand(o.rate))
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
	var missing interface{ Changes() []string }
	if errors.As(err, &missing) && missing.Changes() != nil {
		err = hint.Wrap(err, "measure it: "+report.RunCommand(d.Path(), missing.Changes()))
	}
	if err != nil {
		return report.Sizes{}, fmt.Errorf("size %s: %w", d.Path(), err)
	}
	if err := o.unused(all); err != nil {
		return report.Sizes{}, err
	}
	if several := severalLevels(all); several != nil {
		c.Notef("the run has several levels of a load, and a size for each: write yours with %s", printable.And(several))
	}
	return report.NewSizes(d.Path(), s, all, predict.Next(run, s, all), prices), nil
}

// unused refuses flags about proxies that the run does not have.
func (o sizeOptions) unused(all []predict.Size) error {
	if o.pods != "" && !slices.ContainsFunc(all, func(s predict.Size) bool { return s.Nodes != nil }) {
		return hint.Usage(errors.New("--pods: the run has no proxy of a node"), "leave --pods out: other proxies do not depend on the pods of a node")
	}
	if o.totalRate > 0 && !slices.ContainsFunc(all, func(s predict.Size) bool { return s.Replicas != nil }) {
		return hint.Usage(errors.New("--total-rate: the run has no waypoint and no gateway"), "leave --total-rate out, and write the requests/s through one proxy: --rate 800")
	}
	return nil
}

// severalLevels returns the flags of loads of which sizes have several levels, with those.
func severalLevels(all []predict.Size) (flags []string) {
	for _, f := range []struct{ flag, factor string }{
		{"--connections", experiment.ConnectionsFactor}, {"--connection-rate", experiment.ConnectionRateFactor},
		{"--request-size", experiment.RequestSizeFactor}, {"--response-size", experiment.ResponseSizeFactor},
	} {
		var levels []string
		for _, size := range all {
			if l, ok := size.Factors[f.factor]; ok && !slices.Contains(levels, report.LevelWords(f.factor, l)) {
				levels = append(levels, report.LevelWords(f.factor, l))
			}
		}
		if len(levels) > 1 {
			flags = append(flags, fmt.Sprintf("%s (%s to %s)", f.flag, levels[0], levels[len(levels)-1]))
		}
	}
	return flags
}

// sizing returns the load and the headroom of the flags.
func (o sizeOptions) sizing() (predict.Sizing, error) {
	if !(o.rate > 0) && !(o.totalRate > 0 && o.rate == 0) {
		return predict.Sizing{}, hint.Usage(errors.New("--rate is missing, or not above 0"), "write the requests/s through one proxy: --rate 800")
	}
	share, err := o.share()
	if err != nil {
		return predict.Sizing{}, err
	}
	s := predict.Sizing{Rate: o.rate, Headroom: share, At: map[string]float64{}, TotalRate: o.totalRate}
	if o.totalRate != 0 {
		var cores experiment.Cores
		if err := cores.UnmarshalScalar(o.replicaCPU); err != nil || !(cores > 0) || !(o.totalRate > 0) {
			return s, hint.Usage(fmt.Errorf("--total-rate %g with --replica-cpu %.20q: expected numbers above 0", o.totalRate, o.replicaCPU), "write --total-rate 10000 --replica-cpu 500m")
		}
		s.ReplicaCPU = float64(cores)
	}
	if o.objective != "" {
		objective, err := predict.ParseObjective(o.objective)
		if err != nil {
			return s, hint.Usage(fmt.Errorf("--objective: %w", err), "write --objective 'p99 < 20ms'")
		}
		s.Objective = objective
	}
	if o.pods != "" {
		pods, err := podsOfNodes(o.pods)
		if err != nil {
			return s, err
		}
		s.Pods = pods
	}
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

// share is the headroom.
func (o sizeOptions) share() (float64, error) {
	var share experiment.Share
	err := share.UnmarshalScalar(o.headroom)
	if err == nil || o.headroom == "0" {
		return float64(share), nil
	}
	percent, whole := strings.CutSuffix(o.headroom, "%")
	n, bad := strict.Number(percent)
	if !whole || bad != nil || !(n >= 100) {
		return 0, hint.Usage(fmt.Errorf("--headroom: %w", err), "write 0, or a share such as 30% or 100%")
	}
	return n / 100, nil
}

// maxPods is the largest file of pods, bytes.
const maxPods = 64 << 20

// podsOfNodes counts the lines of each node. Pods without a node wait to be scheduled.
func podsOfNodes(file string) (counts []int, err error) {
	text, err := regular.ReadInput(file, maxPods)
	if err != nil {
		return nil, hint.Usage(fmt.Errorf("--pods: %w", err), "")
	}
	pods := map[string]int{}
	n := 0
	for line := range strings.Lines(string(text)) {
		n++
		switch names := strings.Fields(line); {
		case len(names) == 1 && names[0] != "<none>":
			pods[names[0]]++
		case len(names) > 1:
			return nil, hint.InvalidFile(hint.New("write kubectl get pods -A --no-headers -o custom-columns=NODE:.spec.nodeName", "%s:%d: found %d words, expected the name of a node", file, n, len(names)))
		}
	}
	if len(pods) == 0 {
		return nil, hint.InvalidFile(hint.New("write a line for each pod: the name of its node", "%s has no pod", file))
	}
	return slices.Sorted(maps.Values(pods)), nil
}

// countedFor is how long requests are counted at the proxies of a namespace.
const countedFor = 30 * time.Second

// sizedHere are the flags with --namespace: the proxies that run have loads of their own.
var sizedHere = []string{"namespace", "prometheus", "from", "headroom", "format", "output", "prices"}

// ofNamespace refuses flags that have no meaning with --namespace, or without.
func (o sizeOptions) ofNamespace(flags *pflag.FlagSet) error {
	if o.namespace == "" {
		if o.prometheus != "" {
			return hint.Usage(errors.New("--prometheus without --namespace"), "name the namespace where the sidecars run")
		}
		if o.format == "patch" {
			return hint.Usage(errors.New("--format patch without --namespace"), "write --format annotations, or name the namespace where the sidecars run")
		}
		return nil
	}
	var wrong []string
	flags.Visit(func(f *pflag.Flag) {
		if !slices.Contains(sizedHere, f.Name) {
			wrong = append(wrong, "--"+f.Name)
		}
	})
	if len(wrong) > 0 {
		return hint.Usage(fmt.Errorf("both --namespace and %s", strings.Join(wrong, ", ")), "remove them: the proxies of a namespace have loads of their own")
	}
	if names := report.Names(report.NeedsForms()); !slices.Contains(names, o.format) {
		return hint.Usage(fmt.Errorf("--namespace with --format %s", o.format), "write one of "+strings.Join(names, ", "))
	}
	return nil
}

// needs sizes the sidecars that run in a namespace.
func (c *CommandLine) needs(ctx context.Context, o sizeOptions) (report.Needs, error) {
	none := report.Needs{}
	headroom, err := o.share()
	if err != nil {
		return none, err
	}
	prices, err := pricesOf(o.prices)
	if err != nil {
		return none, err
	}
	if c.kubernetes == nil {
		return none, session.ErrKubernetes
	}
	dirs, err := c.curves(o.from, predict.CurveCommand(0))
	if err != nil {
		return none, err
	}
	sources, closeAll, err := sourcesOf(dirs)
	defer closeAll()
	if err != nil {
		return none, err
	}
	costs, err := predict.CostsOf(sources)
	if err != nil {
		return none, fmt.Errorf("size %s: %w", dirs[0], err)
	}
	window, rates := countedFor, fmt.Sprintf("counted at the proxies for %v", countedFor)
	if o.prometheus != "" {
		window, rates = 0, "of a mean pod in the busiest two minutes of a day, by Prometheus, times the present pods"
	} else {
		c.Notef("counting requests at the proxies of namespace %s for %v", o.namespace, countedFor)
	}
	running, err := c.kubernetes.Sidecars(ctx, o.namespace, window)
	if err != nil {
		return none, err
	}
	if o.prometheus != "" {
		if err := addRates(ctx, o.prometheus, &running); err != nil {
			return none, err
		}
	}
	mine, err := predict.CostsFor(costs, running.Mesh)
	if err != nil {
		return none, err
	}
	all, err := mine.Needs(running, headroom)
	if err != nil {
		return none, fmt.Errorf("size namespace %s: %w", o.namespace, err)
	}
	return report.NewNeeds(running, rates, all, prices), nil
}

// addRates adds the requests/s of a mean pod in the busiest two minutes of a day: autoscalers change the number of pods. Of a younger
// Prometheus they are the present ones.
func addRates(ctx context.Context, prometheus string, s *predict.Sidecars) error {
	found := false
	for _, side := range []struct{ reporter, label string }{{"destination", "destination_workload"}, {"source", "source_workload"}} {
		now := fmt.Sprintf(`avg by (%s) (sum by (%s, pod, instance) (rate(istio_requests_total{reporter=%q, %s_namespace=%q}[2m])))`, side.label, side.label, side.reporter, side.label, s.Namespace)
		rates := func(query string, add func(w int, rate float64)) error {
			samples, err := scrape.Query(ctx, prometheus, query)
			for _, sample := range samples {
				i := slices.IndexFunc(s.Workloads, func(w predict.Workload) bool { return w.Name == sample.Labels[side.label] })
				if i >= 0 && sample.Value > 0 {
					add(i, sample.Value*float64(s.Workloads[i].Pods))
				}
			}
			return hint.Wrap(err, "--prometheus takes the address that `kubectl port-forward` of its Service prints, such as http://localhost:9090")
		}
		of := func(i int) (busiest, share *float64) {
			if w := &s.Workloads[i]; side.reporter == "source" {
				return &w.Sent, &w.Present.Sent
			} else {
				return &w.Received, &w.Present.Received
			}
		}
		err := rates(fmt.Sprintf("max_over_time(%s[1d:1m]) or %s", now, now), func(i int, rate float64) {
			found = true
			busiest, _ := of(i)
			*busiest = rate
		})
		if err == nil {
			err = rates(now, func(i int, rate float64) {
				if busiest, share := of(i); *busiest > 0 {
					*share = rate / *busiest
				}
			})
		}
		if err != nil {
			return err
		}
	}
	if !found {
		return hint.New("leave --prometheus out: tare then counts requests at the proxies", "Prometheus has no istio_requests_total of a workload in namespace %s", s.Namespace)
	}
	return nil
}
