// Command tare-agent runs inside a trial: the services under test and the load
// worker. It is kept small: no Kubernetes, no charts.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/signal"
	"runtime"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/tare-mesh/tare/internal/base/execution"
	"github.com/tare-mesh/tare/internal/base/hint"
	"github.com/tare-mesh/tare/internal/base/httpserver"
	"github.com/tare-mesh/tare/internal/base/probe"
	"github.com/tare-mesh/tare/internal/cli/console"
	"github.com/tare-mesh/tare/internal/experiment/mesh"
	"github.com/tare-mesh/tare/internal/inside/proxy"
	"github.com/tare-mesh/tare/internal/inside/service"
	"github.com/tare-mesh/tare/internal/load/engine"
)

// commands are in the order of the help output.
var commands = []func() *cobra.Command{newServeCommand, newLoadCommand, newWorkerCommand, newNodeCommand, newProbeCommand, newExecuteCommand, newProxyCommand, newSinkCommand, newCompletionsCommand, newControlCommand, newProxiesCommand, newCopyCommand, newAtCommand, newFilesCommand}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	root := &cobra.Command{
		Use:           "tare-agent",
		Short:         "Programs that run inside a trial of tare",
		Version:       console.Version(),
		SilenceErrors: true,
		SilenceUsage:  true,
	}
	root.SetVersionTemplate("tare-agent {{.Version}}\n")
	for _, newCommand := range commands {
		root.AddCommand(newCommand())
	}
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		return hint.Usage(err, "`"+cmd.CommandPath()+" --help` lists the flags")
	})
	os.Exit(console.Exit(os.Stderr, "tare-agent", usage(root.ExecuteContext(ctx))))
}

// usage adds a hint to cobra's untyped error about an unknown command, or about
// arguments of a command without any.
func usage(err error) error {
	if err != nil && strings.HasPrefix(err.Error(), "unknown command ") {
		return hint.Usage(err, "`tare-agent --help` lists the commands")
	}
	return err
}

func newLoadCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "load",
		Short: "Send the load that a profile (JSON on standard input) describes",
		Long: `load reads a load profile as JSON on standard input, carries it out, and writes
one JSON line a second on standard output and the report as the last. Before the
profile {"clock": true} may be asked any number of times; each is answered by a
line with the time of day at which it was read and answered. After a profile with
"hold" the line {"ready": true} announces that the connections are open, and the
load begins at the time in {"start": "…"}, which must follow. At SIGTERM or SIGINT
it stops sending, waits for what is under way, and reports what was measured.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return engine.Process(cmd.Context(), "tare-agent", cmd.InOrStdin(), cmd.OutOrStdout(), cmd.ErrOrStderr(), engine.Run)
		},
	}
}

func newExecuteCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "execute",
		Short: "Execute programs that end, and read what each execution used",
		Long: `execute reads a series of executions from standard input, as JSON, and writes one JSON
line for each execution.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return execution.Serve(cmd.Context(), cmd.InOrStdin(), cmd.OutOrStdout())
		},
	}
}

func newProbeCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "probe",
		Short: "Measure the speed of the processors: run a fixed piece of work and print its time",
		Long: `probe runs the fixed work of a calibration reading on every processor it may
use, in about a tenth of a second, and writes the reading as one JSON line.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			r, err := probe.Local{}.Probe(cmd.Context())
			if err != nil {
				return err
			}
			if err := json.NewEncoder(cmd.OutOrStdout()).Encode(r); err != nil {
				return fmt.Errorf("write the reading: %w", err)
			}
			return nil
		},
	}
}

func newCompletionsCommand() *cobra.Command {
	listen := "127.0.0.1:8080"
	c := service.Completions{Tokens: 50, First: 20 * time.Millisecond, Pace: 2 * time.Millisecond}
	cmd := &cobra.Command{
		Use:   "completions",
		Short: "Run a stand-in for a completion server: tokens as server-sent events, at a given pace",
		Long: `completions answers every path as a chat completion of OpenAI's interface, with tokens at
a given pace. It sends the header at once. A request whose body has no
"stream": true has one JSON object as its answer. max_tokens may ask for fewer tokens.`,
		Example: `  tare-agent completions --listen 127.0.0.1:8080 --tokens 100 --first 50ms --pace 5ms`,
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			l, err := service.Listen(listen)
			if err != nil {
				return err
			}
			// No timeouts: that of headers would close idle connections too.
			return httpserver.Serve(cmd.Context(), l, &http.Server{Handler: c, Protocols: httpserver.PlainProtocols()})
		},
	}
	f := cmd.Flags()
	f.StringVar(&listen, "listen", listen, "`address` to listen on: HOST:PORT, or fd:3 for an inherited socket")
	f.IntVar(&c.Tokens, "tokens", c.Tokens, "`number` of tokens of an answer, each an event")
	f.DurationVar(&c.First, "first", c.First, "`time` from a request to its first token")
	f.DurationVar(&c.Pace, "pace", c.Pace, "`time` between two tokens; 0s: all at once")
	return cmd
}

func newSinkCommand() *cobra.Command {
	listen := "127.0.0.1:4317"
	cmd := &cobra.Command{
		Use:     "sink",
		Short:   "Receive spans by OTLP over gRPC, count and discard them",
		Example: `  tare-agent sink --listen 127.0.0.1:4317`,
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			l, err := service.Listen(listen)
			if err != nil {
				return err
			}
			return httpserver.Serve(cmd.Context(), l, &http.Server{Handler: service.NewSink(), Protocols: httpserver.PlainProtocols(), ReadHeaderTimeout: httpserver.Grace})
		},
	}
	cmd.Flags().StringVar(&listen, "listen", listen, "`address` to listen on: HOST:PORT, or fd:3 for an inherited socket")
	return cmd
}

func newProxyCommand() *cobra.Command {
	var (
		config string
		weight proxy.Weight
	)
	cmd := &cobra.Command{
		Use:   "proxy",
		Short: "Run a plain sidecar proxy with a configurable cost",
		Long: `proxy is the reference proxy, the standard weight that the scale is checked
with: a plain HTTP proxy, with mutual TLS where the configuration names a
certificate. Burn and delay lie on the way in to a service, so that a call
between two services bears them once.`,
		Example: `  tare-agent proxy --config sidecar.yaml --burn 100us`,
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := readSidecar(config)
			if err != nil {
				return err
			}
			if c.Concurrency > 0 {
				runtime.GOMAXPROCS(c.Concurrency)
			}
			p, err := proxy.New(c, weight)
			if err != nil {
				return err
			}
			return p.Run(cmd.Context())
		},
	}
	f := cmd.Flags()
	f.StringVar(&config, "config", "", "`file` with the sidecar's pod, its servers and clients, as JSON")
	f.DurationVar(&weight.Burn, "burn", 0, "CPU `time` to burn per inbound request, such as 100us")
	f.DurationVar(&weight.Deferred, "defer", 0, "CPU `time` to burn per inbound request after its answer")
	f.DurationVar(&weight.DeferredBy, "defer-by", 0, "`time` from the answer to the deferred work")
	f.DurationVar(&weight.Flush, "flush", 0, "`period` after which the deferred work of all requests is done at once")
	f.Float64Var(&weight.Steady, "steady", 0, "`cores` to use with and without requests")
	f.DurationVar(&weight.Delay, "delay", 0, "`time` to delay each inbound request, without CPU")
	f.IntVar(&weight.Leak, "leak", 0, "memory to keep of each inbound request, in `KiB`")
	f.IntVar(&weight.Memory, "memory", 0, "memory to hold, in `MiB`")
	_ = cmd.MarkFlagRequired("config")
	return cmd
}

// readSidecar reads the output of a mesh definition's template `{{json .}}`.
func readSidecar(path string) (mesh.SidecarContext, error) {
	var c mesh.SidecarContext
	f, err := os.Open(path)
	if err != nil {
		return c, fmt.Errorf("read the sidecar's configuration: %w", err)
	}
	defer f.Close()
	dec := json.NewDecoder(io.LimitReader(f, maxConfig))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&c); err != nil {
		return c, fmt.Errorf("read the sidecar's configuration %s: %w", path, err)
	}
	return c, nil
}
