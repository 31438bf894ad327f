package cli

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"go.yaml.in/yaml/v3"

	"github.com/tare-mesh/tare/internal/base/hint"
	"github.com/tare-mesh/tare/internal/base/outfile"
	"github.com/tare-mesh/tare/internal/base/printable"
	"github.com/tare-mesh/tare/internal/base/proc"
	"github.com/tare-mesh/tare/internal/experiment"
	"github.com/tare-mesh/tare/internal/experiment/app"
	"github.com/tare-mesh/tare/internal/experiment/mesh"
	"github.com/tare-mesh/tare/internal/result"
	"github.com/tare-mesh/tare/internal/show/report"
)

// weighOptions are the flags of `tare weigh`.
type weighOptions struct {
	url         string
	namespace   string // of a running application on a cluster
	manifests   []string
	entry       string // its Service that receives the load
	kubeconfig  string
	context     string
	inPlace     bool // enrol the namespace itself
	inUse       bool // measure on a cluster that is not marked as disposable
	yes         bool
	version     string // of the mesh
	charts      string
	options     []string
	image       string
	path        string
	ready       string
	protocol    string
	headers     []string
	meshes      []string
	rate        float64 // 0: searched
	connections int
	time        time.Duration // for all trials
	out         string        // results directory
	keep        outfile.File  // experiment file
	plain       bool
}

func newWeighCommand(c *CommandLine) *cobra.Command {
	o := weighOptions{}
	cmd := &cobra.Command{
		Use:   "weigh [flags] -- PROGRAM [ARGUMENT…]",
		Short: "Measure what a sidecar adds to your program, without a file",
		Long: `weigh starts your program on this machine, with and without a pair of Envoy sidecars,
and prints the CPU, time and memory that they add. It takes about a minute.

Write {port} where the program takes its port: tare chooses a port and inserts it.
'${port}', in single quotes, means the same. The environment variable PORT contains the
port too. For a program that already runs, use --url.

For an application on a Kubernetes cluster, use --entry with --namespace or --manifests.
tare copies it into its own namespaces, and only reads the original.
Each trial is deployed alone, with a mesh installed before: weigh prints the time first.
With --in-place no copy is made: each trial labels the namespace for its mesh, restarts
the workloads, and restores both. After a killed run ` + "`tare cleanup`" + ` restores them.

weigh finds a rate that all treatments can serve, and keeps the experiment file.
` + "`tare run FILE`" + ` repeats it, with more blocks or another mesh. Exit codes are those of
` + "`tare run`" + `.`,
		Example: `  tare weigh -- python3 -m http.server {port}
  tare weigh --path /items --ready /healthz -- ./server --listen 127.0.0.1:{port}
  tare weigh --url http://127.0.0.1:8080/items       # a program that already runs
  tare weigh --mesh consul --mesh envoy -- node server.js      # reads the variable PORT
  tare weigh --protocol grpc -- ./grpc-server --port {port}    # its health check
  tare weigh --rate 500 --time 3m -- ./server {port}
  tare weigh --namespace shop --entry web --mesh istio         # on a cluster
  tare weigh --namespace shop --entry web --in-place           # without a copy`,
		RunE: func(cmd *cobra.Command, args []string) error {
			if o.onCluster() && !cmd.Flags().Changed("mesh") {
				o.meshes = []string{"istio"}
			}
			study, err := o.file(args)
			if err != nil {
				return err
			}
			if o.onCluster() {
				return weigher{c}.weighCopy(cmd.Context(), study, o)
			}
			return weigher{c}.weigh(cmd.Context(), study, o)
		},
	}
	f := cmd.Flags()
	f.SetInterspersed(false) // what follows the program are its own arguments
	f.StringVar(&o.url, "url", "", "measure a program that already runs at this `URL` on 127.0.0.1, instead of a command")
	f.StringVarP(&o.namespace, "namespace", "n", "", "copy the application that runs in this `namespace` of a cluster")
	f.StringArrayVar(&o.manifests, "manifests", nil, "deploy the Kubernetes objects of this `file` or directory; may be repeated")
	f.StringVar(&o.entry, "entry", "", "`Service` that receives the load, with --namespace or --manifests")
	f.StringVar(&o.kubeconfig, "kubeconfig", "", "kubeconfig to read, with --namespace or --manifests")
	f.StringVar(&o.context, "context", "", "context in it")
	f.BoolVar(&o.inPlace, "in-place", false, "with --namespace: measure without a copy. Each trial adds the application to the mesh, restarts it, and restores it")
	f.BoolVar(&o.inUse, "in-use", false, "measure on a cluster that is not marked as disposable")
	f.BoolVarP(&o.yes, "yes", "y", false, "with --in-place: do not ask for confirmation")
	f.StringVar(&o.version, "mesh-version", "", "`version` of the meshes' charts, on a cluster")
	f.StringVar(&o.charts, "charts", "", "`directory` with the meshes' charts, on a cluster, in place of downloads")
	f.StringArrayVar(&o.options, "option", nil, "option of the meshes as `name=value`, on a cluster; may be repeated")
	f.StringVar(&o.image, "image", "", "`image` of tare-agent, on a cluster (default: the image of this version)")
	f.StringVar(&o.path, "path", "", "`path` of the requests, or the gRPC method (default /, and the gRPC health check)")
	f.StringVar(&o.ready, "ready", "", "`path` that is answered with 2xx or 3xx once the program serves (default: any answer)")
	f.StringVar(&o.protocol, "protocol", app.HTTP1, "protocol of the program: http1, http2, grpc or websocket (an echo)")
	f.StringArrayVarP(&o.headers, "header", "H", nil, "request header `\"Name: value\"`, Host included; may be repeated. The file has ${env:NAME} as it is")
	f.StringArrayVar(&o.meshes, "mesh", []string{"envoy"}, "compare with this `mesh` of tare list meshes, or a file with a definition; may be repeated (on a cluster istio)")
	f.Float64Var(&o.rate, "rate", 0, "`requests` per second (default: found by a short search; 50 on a cluster)")
	f.IntVar(&o.connections, "connections", 4, "connections of the load")
	f.DurationVar(&o.time, "time", time.Minute, "about how long to measure; longer narrows the intervals")
	f.StringVar(&o.out, "out", "", "results `directory`; default runs/weigh-<program>-<UTC time>")
	f.Var(&o.keep, "keep", "write the experiment to this `file`; default: the results directory with .yaml")
	f.BoolVar(&o.plain, "plain", false, "plain lines instead of a screen")
	_ = cmd.MarkFlagDirname("out")
	_ = cmd.MarkFlagFilename("keep", "yaml", "yml")
	return cmd
}

// weighFile is the experiment file of tare weigh: the fields of [experiment.Experiment] that a person
// would write.
type weighFile struct {
	APIVersion  string               `yaml:"apiVersion"`
	Kind        string               `yaml:"kind"`
	Metadata    experiment.Metadata  `yaml:"metadata"`
	Platform    weighPlatform        `yaml:"platform,omitempty"`
	Application weighApplication     `yaml:"application"`
	Meshes      map[string]weighMesh `yaml:"meshes,omitempty"`
	Factors     weighFactors         `yaml:"factors"`
	Load        weighLoad            `yaml:"load,omitempty"`
	Order       string               `yaml:"order,omitempty"`
	Slices      *experiment.Slices   `yaml:"slices,omitempty"`
	Blocks      int                  `yaml:"blocks"`
	Control     bool                 `yaml:"control"`
	Phases      weighPhases          `yaml:"phases"`

	definitions []string // files of meshes
}

// weighPlatform is empty on this machine.
type weighPlatform struct {
	Kind       string `yaml:"kind,omitempty"`
	Kubeconfig string `yaml:"kubeconfig,omitempty"`
	Context    string `yaml:"context,omitempty"`
	Image      string `yaml:"image,omitempty"`
	InUse      string `yaml:"inUse,omitempty"`
}

type weighLoad struct {
	Headers map[string]string `yaml:"headers,omitempty"`
}

// weighMesh is the choice of a mesh's charts.
type weighMesh struct {
	Version string            `yaml:"version,omitempty"`
	Charts  string            `yaml:"charts,omitempty"`
	Options map[string]string `yaml:"options,omitempty"`
}

type weighApplication struct {
	app.Own   `yaml:",inline"`
	Manifests []string `yaml:"manifests,omitempty"`
	Namespace string   `yaml:"namespace,omitempty"`
	InPlace   bool     `yaml:"inPlace,omitempty"`
	Entry     string   `yaml:"entry,omitempty"`
}

type weighFactors struct {
	Mesh        []string  `yaml:"mesh,flow"`
	Rate        []float64 `yaml:"rate,flow"`
	Connections []int     `yaml:"connections,flow"`
	Protocol    []string  `yaml:"protocol,flow,omitempty"`
	Route       []string  `yaml:"route,flow,omitempty"`
}

type weighPhases struct {
	Warmup  experiment.Duration `yaml:"warmup"`
	Measure experiment.Duration `yaml:"measure"`
	Drain   experiment.Duration `yaml:"drain"`
}

// Phases of tare weigh, for each treatment.
const (
	weighWarmup  = 500 * time.Millisecond
	weighMeasure = 2 * time.Second
	weighDrain   = time.Second
)

// portMark is the port in a command line. Shells replace ${port}, and leave {port}.
var portMark = regexp.MustCompile(`(^|[^$])\{(port|host)\}`)

// file is the experiment that the flags describe. Its rate and blocks are chosen later.
func (o weighOptions) file(args []string) (*weighFile, error) {
	var name string
	if o.onCluster() {
		return o.fileOnCluster(args)
	}
	switch {
	case o.entry != "" || o.kubeconfig != "" || o.context != "" || o.inPlace || o.inUse || o.yes || o.version != "" || o.charts != "" || len(o.options) > 0 || o.image != "":
		return nil, hint.Usage(errors.New("--entry, --kubeconfig, --context, --in-place, --in-use, --yes, --mesh-version, --charts, --option and --image apply to a cluster"), "add --namespace NAME or --manifests DIR")
	case len(args) == 0 && o.url == "":
		return nil, hint.Usage(errors.New("no program to measure"), "write `tare weigh -- PROGRAM {port}`, or --url http://127.0.0.1:8080 for one that runs")
	case len(args) > 0 && o.url != "":
		return nil, hint.Usage(errors.New("both a program and --url"), "remove one of the two")
	case o.time < 10*time.Second || o.time > 24*time.Hour:
		return nil, hint.Usage(fmt.Errorf("--time %v is not between 10s and 24h", o.time), "")
	case slices.Equal(o.meshes, []string{"none"}):
		return nil, hint.Usage(errors.New("--mesh none is the baseline"), "name the mesh to compare with it, such as envoy")
	case o.rate < 0:
		return nil, hint.Usage(fmt.Errorf("--rate %v is negative", o.rate), "omit --rate: tare then searches for a rate")
	}
	w := &weighFile{APIVersion: experiment.APIVersion, Kind: experiment.Kind, Order: experiment.OrderInterleaved, Blocks: minWeighBlocks, Control: true,
		Phases:  weighPhases{experiment.Duration(weighWarmup), experiment.Duration(weighMeasure), experiment.Duration(weighDrain)},
		Factors: weighFactors{Mesh: []string{"none"}, Rate: []float64{cmp.Or(o.rate, 1)}, Connections: []int{o.connections}, Protocol: []string{o.protocol}}}
	w.Application.Ready = o.ready
	path := o.path
	if o.url != "" {
		scheme, rest, _ := strings.Cut(o.url, "://")
		host, inURL, _ := strings.Cut(rest, "/")
		w.Application.URL, name = scheme+"://"+host, "url"
		if path == "" && inURL != "" {
			path = "/" + inURL
		}
	} else {
		dir, err := os.Getwd()
		if err != nil {
			return nil, fmt.Errorf("find the working directory: %w", err)
		}
		w.Application.Dir, name = dir, filepath.Base(args[0])
		for _, word := range args {
			w.Application.Command = append(w.Application.Command, portMark.ReplaceAllString(word, "$1$${$2}"))
		}
		w.Metadata.Description = proc.Command{Path: args[0], Args: args[1:]}.String()
	}
	if path != "" {
		w.Factors.Route = []string{path}
	}
	w.Metadata.Name = label("weigh-" + name)
	return w, errors.Join(w.addHeaders(o.headers), w.addMeshes(o.meshes))
}

// addHeaders adds headers of every request.
func (w *weighFile) addHeaders(all []string) error {
	for _, line := range all {
		name, value, ok := strings.Cut(line, ":")
		if !ok {
			return hint.Usage(fmt.Errorf("--header %q is not of the form Name: value", line), "write -H 'Host: shop.example'")
		}
		if w.Load.Headers == nil {
			w.Load.Headers = map[string]string{}
		}
		w.Load.Headers[name] = strings.TrimSpace(value)
	}
	return nil
}

// addMeshes adds meshes by name, or by the file of a definition.
func (w *weighFile) addMeshes(all []string) error {
	for _, m := range all {
		if mesh.IsPath(m) {
			d, err := mesh.Load(m)
			if err != nil {
				return hint.InvalidFile(err)
			}
			w.definitions, m = append(w.definitions, m), d.Name
		}
		if m != "none" && !slices.Contains(w.Factors.Mesh, m) {
			w.Factors.Mesh = append(w.Factors.Mesh, m)
		}
	}
	return nil
}

// label makes a DNS label of a name.
func label(name string) string {
	name = strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= '0' && r <= '9' {
			return r
		}
		return '-'
	}, strings.ToLower(name))
	return strings.Trim(name[:min(len(name), 40)], "-")
}

// yaml is the file with a heading.
func (w *weighFile) yaml(path string) ([]byte, error) {
	var b bytes.Buffer
	fmt.Fprintf(&b, "# Written by tare weigh. To repeat it, perhaps with more blocks:\n#\n#     %s\n", tareRun(w.definitions, path))
	e := yaml.NewEncoder(&b)
	e.SetIndent(2)
	if err := errors.Join(e.Encode(w), e.Close()); err != nil {
		return nil, fmt.Errorf("write %s: %w", path, err)
	}
	return b.Bytes(), nil
}

// weigher is `tare weigh`.
type weigher struct{ *CommandLine }

// studyOf reads the file as `tare run` does.
func (c weigher) studyOf(w *weighFile, path string) (*Study, error) {
	text, err := w.yaml(path)
	if err != nil {
		return nil, err
	}
	return c.decode(path, text, ExperimentOptions{Meshes: w.definitions})
}

// begin returns the study of a file, its results directory and the path that the file is kept at. Nothing is written yet.
func (c weigher) begin(w *weighFile, o weighOptions) (study *Study, out, path string, err error) {
	out = cmp.Or(o.out, newRun(w.Metadata.Name, time.Now().UTC()))
	if err := result.CheckEmpty(out); err != nil { // before the file beside it is replaced
		return nil, "", "", err
	}
	if study, err = c.studyOf(w, "tare weigh"); err == nil {
		err = c.needs(study.Experiment)
	}
	return study, out, cmp.Or(string(o.keep), strings.TrimRight(out, "/")+".yaml"), err
}

// weigh searches a rate, writes the experiment file, runs it and prints the answer.
func (c weigher) weigh(ctx context.Context, w *weighFile, o weighOptions) error {
	study, out, path, err := c.begin(w, o)
	if err != nil {
		return err
	}
	start, err := c.fit(ctx, w, study, o, out)
	if err != nil {
		return err
	}
	if study, err = c.keepFile(w, path); err != nil {
		return err
	}
	c.Notef("measuring at %v requests/s on %s: %s, about %v", w.Factors.Rate[0], printable.Counted(o.connections, "connection"), printable.Counted(w.Blocks, "block"), (study.Plan.Expected + time.Duration(len(study.Plan.Trials))*start).Round(5*time.Second))
	err = runCommand(c).run(ctx, path, runOptions{ExperimentOptions: ExperimentOptions{Meshes: w.definitions}, out: out, plain: o.plain, start: start, report: defaultReport(), finish: c.answer})
	fmt.Fprintf(c.Err, "Experiment file for later runs: %s\n", path)
	return err
}

// keepFile writes the experiment file.
func (c weigher) keepFile(w *weighFile, path string) (*Study, error) {
	study, err := c.studyOf(w, path)
	if err != nil {
		return nil, err
	}
	text, err := w.yaml(path)
	if err != nil {
		return nil, err
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o750); err != nil {
		return nil, fmt.Errorf("write the experiment file: %w", err)
	}
	return study, outfile.WriteFile(path, text, 0o644)
}

// answer prints the result in a few sentences, or the whole report if trials are missing from it.
func (c weigher) answer(dir string, o reportOptions) error {
	d, r, err := analyse(dir, o)
	if err != nil {
		return err
	}
	defer d.Close()
	lines := report.Answer(r)
	if len(lines) == 0 || r.Count.Used < r.Count.Planned {
		return reporter(c).report(dir, o)
	}
	for _, line := range lines {
		fmt.Fprintln(c.Out, line)
	}
	return nil
}

// startHint is added to a failed start of the program.
func startHint(err error, w *weighFile) error {
	if !strings.Contains(hint.Of(err), "${port}") || slices.ContainsFunc(w.Application.Command, func(word string) bool { return strings.Contains(word, "${port}") }) {
		return err
	}
	return hint.Wrap(err, "no argument is {port}: write it where the program takes its port, or let it read the variable PORT (a shell removes an unquoted ${port})")
}
