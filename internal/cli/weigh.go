package cli

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/tare-mesh/tare/internal/answer"
	"github.com/tare-mesh/tare/internal/base/hint"
	"github.com/tare-mesh/tare/internal/base/outfile"
	"github.com/tare-mesh/tare/internal/base/printable"
	"github.com/tare-mesh/tare/internal/cli/console"
	"github.com/tare-mesh/tare/internal/experiment/app"
	"github.com/tare-mesh/tare/internal/session"
	"github.com/tare-mesh/tare/internal/show/report"
)

type weighOptions struct {
	session.Weigh
	keep outfile.File // experiment file
	data string       // body, or @file
	run  runOptions
}

func newWeighCommand(c *CommandLine) *cobra.Command {
	o := weighOptions{run: runOptions{report: defaultReport()}}
	cmd := &cobra.Command{
		Use:   "weigh [flags] -- PROGRAM [ARGUMENT…]",
		Short: "Measure what a sidecar, an agent or a process beside it adds to your program, without a file",
		Long: `weigh starts your program on this machine, with and without a pair of Envoy sidecars,
and prints the CPU, time and memory that they add. It takes about a minute.

Write {port} where the program takes its port: tare chooses a port and inserts it.
'${port}', in single quotes, means the same. The environment variable PORT contains the
port too. For a program that already runs, use --url.

For an application on a Kubernetes cluster, use --entry with --namespace or --manifests.
tare copies it into its own namespaces, and only reads the original.
Each trial is deployed alone, with a mesh installed before: weigh prints the time first.
With --in-place no copy is made: each trial labels the namespace for its mesh, restarts
the workloads, and restores both. After a killed run ` + "`tare cluster cleanup`" + ` restores them.

--sidecar measures another proxy than Envoy: any program. tare starts it once beside the
server and once beside the load, with the address to listen on for {listen}, and for
{upstream} the address to forward to. Words are split as in a shell; none is started. --gateway
measures one proxy between the load and the program in the same way.

A program that speaks TLS or HTTP/2 itself is recognised. TLS is forwarded as it is: by
envoy-tcp in place of envoy, by haproxy, or by a program of --sidecar that copies bytes.

--env, --prefix and --beside compare the program with itself, without a mesh: with other
environment variables, started by another program, and with a process beside it, which
starts and ends with it. All that are given make one variant. {NAME.port}, {NAME.host} and
{NAME.url} are the address of the process beside it, by the name of its program. One with
{app.pid}, such as a profiler, starts once the program answers.

weigh finds a rate that all treatments can serve, and keeps the experiment file. A block
with an invalid trial is repeated, at most half as many times as there are blocks.
` + "`tare run FILE`" + ` repeats it, with more blocks or another mesh. Exit codes are those of
` + "`tare run`" + `.`,
		Example: `  tare weigh -- python3 -m http.server {port}
  tare weigh --sidecar nginx --sidecar haproxy -- ./server {port}
  tare weigh --gateway nginx -- ./server {port}    # one proxy in front
  tare weigh --env NODE_OPTIONS='--require ./otel.js' -- node server.js
  tare weigh --beside 'fluent-bit -c fluent.conf' -- ./server --port {port}
  tare weigh --url http://127.0.0.1:8080/items     # a program that already runs
  tare weigh --namespace shop --entry web --mesh istio         # on a cluster
  tare weigh --rate 500 --time 3m -- ./server {port}
  tare weigh --path /v1/chat/completions --data @prompt.json -- ./gateway --port {port}
  tare weigh --path /items --ready /healthz -- ./server --listen 127.0.0.1:{port}
  tare weigh --mesh consul --mesh envoy -- node server.js      # reads the variable PORT
  tare weigh --protocol grpc -- ./grpc-server --port {port}    # its health check
  tare weigh --protocol tcp --data $'PING\r\n' --expect-body $'+PONG\r\n' --sidecar haproxy -- redis-server --port {port}
  tare weigh --tls -- node https.js      # speaks TLS itself: sidecars forward its connections
  tare weigh --sidecar './my-proxy --listen {listen} --to {upstream}' -- ./server {port}
  tare weigh --sidecar nginx --option mtls=true -- ./server {port}
  tare weigh --prefix opentelemetry-instrument -- python3 app.py
  tare weigh --beside 'py-spy record -o /dev/null -d 600 --pid {app.pid}' -- python3 app.py {port}
  tare weigh --prefix 'strace -f -o /dev/null' -- gzip -k -f data   # a program that ends
  tare weigh --namespace shop --entry web --in-place           # without a copy`,
		RunE: func(cmd *cobra.Command, args []string) error {
			if o.OnCluster() && !cmd.Flags().Changed("mesh") {
				o.Meshes = []string{"istio"}
			}
			o.RateChosen = cmd.Flags().Changed("rate")
			o.MeshChosen = cmd.Flags().Changed("mesh")
			if len(o.Sidecars)+len(o.Gateways)+len(o.Env)+len(o.Beside)+len(o.Prefix) > 0 && !cmd.Flags().Changed("mesh") {
				o.Meshes = nil
			}
			o.Keep = string(o.keep)
			o.Input = inputOf(o.data)
			if o.data != "" {
				var err error
				if o.Body, err = readBody(o.data, c.In); err != nil {
					return hint.Usage(err, "")
				}
			}
			return weigher{c}.weigh(cmd.Context(), args, o)
		},
	}
	f := cmd.Flags()
	f.SetInterspersed(false) // what follows the program are its own arguments
	f.StringVar(&o.URL, "url", "", "measure a program that already runs at this `URL` on 127.0.0.1, instead of a command")
	f.StringVarP(&o.Namespace, "namespace", "n", "", "copy the application that runs in this `namespace` of a cluster")
	f.StringArrayVar(&o.Manifests, "manifests", nil, "deploy the Kubernetes objects of this `file` or directory; may be repeated")
	f.StringVar(&o.Entry, "entry", "", "`Service` that receives the load, with --namespace or --manifests")
	f.StringVar(&o.Kubeconfig, "kubeconfig", "", "kubeconfig to read, with --namespace or --manifests")
	f.StringVar(&o.Context, "context", "", "context in it")
	f.BoolVar(&o.InPlace, "in-place", false, "with --namespace: measure without a copy. Each trial adds the application to the mesh, restarts it, and restores it")
	f.BoolVar(&o.InUse, "in-use", false, "measure on a cluster that is not marked as disposable")
	f.BoolVarP(&o.Yes, "yes", "y", false, "with --in-place: do not ask for confirmation")
	f.StringVar(&o.Version, "mesh-version", "", "`version` of the meshes' charts, on a cluster")
	f.StringVar(&o.Charts, "charts", "", "`directory` with the meshes' charts, on a cluster, in place of downloads")
	f.StringArrayVar(&o.Options, "option", nil, "option of the meshes as `name=value`, such as mtls=true; may be repeated (tare list options)")
	f.StringVar(&o.Image, "image", "", "`image` of tare-agent, on a cluster (default: the image of this version)")
	f.StringVar(&o.Path, "path", "", "`path` of the requests, or the gRPC method (default /, and the gRPC health check)")
	f.StringVar(&o.Ready, "ready", "", "`path` that is answered with 2xx or 3xx once the program serves (default: any answer)")
	f.StringVar(&o.Protocol, "protocol", app.HTTP1, "protocol of the program: http1, http2, grpc, websocket (an echo) or tcp, with --data and --expect-body")
	f.StringVar(&o.Expect, "expect-body", "", "--protocol tcp: the whole answer to --data, as `text`")
	f.BoolVar(&o.TLS, "tls", false, "the program speaks TLS itself (default: probed)")
	registerRequest(f, &o.Method, &o.data, &o.Headers)
	f.StringArrayVar(&o.Meshes, "mesh", []string{"envoy"}, "compare with this `mesh` of tare list meshes, or a file with a definition; may be repeated (on a cluster istio)")
	f.StringArrayVar(&o.Sidecars, "sidecar", nil, "measure this `command` as the sidecar, with {listen} and {upstream}, or a mesh by name; may be repeated")
	f.StringArrayVar(&o.Gateways, "gateway", nil, "measure this `command` as one proxy between the load and the program, or the proxy of a mesh by name; may be repeated")
	f.StringVar(&o.Config, "config", "", "`file` with the configuration of the --gateway, with ${listen} and ${upstream}")
	f.StringArrayVar(&o.Env, "env", nil, "measure the program with this environment `variable`, as NAME=value; may be repeated")
	f.StringVar(&o.Prefix, "prefix", "", "measure the program started by this `command`, such as opentelemetry-instrument")
	f.StringArrayVar(&o.Beside, "beside", nil, "measure the program with this `command` running beside it; may be repeated")
	registerPrepare(f, &o.Prepare)
	f.Float64Var(&o.Rate, "rate", 0, "`requests` per second (default: found by a short search; 50 on a cluster)")
	f.IntVar(&o.Connections, "connections", 4, "connections of the load")
	o.Time = time.Minute
	f.Var((*secondsFlag)(&o.Time), "time", "about how long to measure; longer narrows the intervals")
	f.StringVar(&o.Out, "out", "", "results `directory`; default runs/weigh-<program>-<UTC time>")
	f.Var(&o.keep, "keep", "write the experiment to this `file`; default: the results directory with .yaml")
	f.BoolVar(&o.run.plain, "plain", false, "plain lines instead of a screen")
	choice(cmd, &o.run.report.format, "format", "report format, as in tare report; text is the answer and its differences", formatNames())
	f.BoolVar(&o.Cold, "cold", false, "measure a program that has just begun: no load before the warm-up")
	_ = cmd.MarkFlagDirname("out")
	_ = cmd.MarkFlagFilename("keep", "yaml", "yml")
	helpInShort(cmd, 7, [][2]string{{"sidecar", "any program, or nginx, haproxy, caddy; may be repeated"}, {"gateway", "one proxy in front: nginx, envoy, haproxy, or a command"}, {"mesh", "a mesh of `tare list meshes`, not envoy; may be repeated"},
		{"env", "a variable NAME=value: the program with and without it"}, {"beside", "a command: the program with and without it"}, {"path", "of the requests (default /)"},
		{"rate", "requests per second (default: found by a short search)"}, {"time", "about how long to measure (default 1m)"}, {"out", "results directory"}})
	return cmd
}

type weigher struct{ *CommandLine }

// weigh chooses rate and blocks, writes the experiment file, runs it and prints the answer.
func (c weigher) weigh(ctx context.Context, args []string, o weighOptions) error {
	if err := o.run.report.checkForRun(); err != nil {
		return err
	}
	w, err := c.program.Weigh(ctx, o.Weigh, args)
	if err != nil {
		return err
	}
	c.printNotes(w.Study)
	if err := w.Study.CheckSource(); err != nil {
		return session.InFlags(err)
	}
	if o.InPlace {
		fmt.Fprint(c.Err, sourceText(w.Study))
		if err := c.Confirm(fmt.Sprintf("restart the workloads of namespace %s, several times", o.Namespace), o.Yes); err != nil {
			return err
		}
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	if err := c.firstLook(ctx, w); err != nil {
		return err
	}
	if err := c.fit(ctx, w); err != nil {
		return err
	}
	c.Notef("measuring %s: %s, about %v%s", w.Load(), printable.Counted(w.Blocks(), "block"), w.Expected().Round(5*time.Second), w.Study.Busy())
	o.run.out, o.run.sourceShown, o.run.hints = w.Out, o.InPlace, session.HintInFlags
	if o.run.report.format == defaultReport().format {
		o.run.finish = c.answer
	}
	err = session.InFlags(runCommand(c).runStudy(ctx, w.Study, o.run))
	fmt.Fprintf(c.Err, "Experiment file for later runs: %s\n", w.Path)
	return err
}

// firstLook prints what the reference proxy adds, while Envoy is downloaded.
func (c weigher) firstLook(ctx context.Context, w *session.WeighStudy) error {
	defer c.WhileInterrupted(nil, Undoing)()
	return session.InFlags(w.FirstLook(ctx, c.kill, func(r *answer.Report) {
		if all := report.Claims(r); len(all) > 0 && all[0].Amount != nil && all[0].Amount.Known() {
			c.Notef("a first look, with tare's reference proxy while Envoy is downloaded: %s", all[0].Sentence)
		}
	}))
}

// fit is [session.WeighStudy.Fit]. An interrupt waits until its processes have ended.
func (c weigher) fit(ctx context.Context, w *session.WeighStudy) error {
	defer c.WhileInterrupted(nil, Undoing)()
	return session.InFlags(w.Fit(ctx))
}

// answer prints the result in a few sentences, or the whole report if trials are missing from it.
func (c weigher) answer(dir string, o reportOptions) error {
	a, err := analyse(dir, o)
	if err != nil {
		return err
	}
	defer a.Dir.Close()
	for i := range a.Report.Warnings {
		a.Report.Warnings[i].Hint = session.HintInFlags(a.Report.Warnings[i].Hint)
	}
	if p := a.Dir.Plan(); len(report.Answer(a.Report)) == 0 || a.Report.Count.Used < p.Needed() {
		f, err := reportFormat(o, console.Columns(c.Out), console.Color(c.Out))
		if err == nil {
			err = f.WriteTo(c.Out, a)
		}
		return err
	}
	if err := report.WriteAnswer(c.Out, a.Report, report.Options{Width: console.Columns(c.Out), Color: console.Color(c.Out)}); err != nil {
		return err
	}
	fmt.Fprintf(c.Err, "Tables: tare report %s\n", printable.ShellWord(dir))
	return nil
}
