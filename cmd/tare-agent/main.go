// Command tare-agent runs inside a trial: the services under test and the load
// worker. It is kept small: no Kubernetes, no charts.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/signal"
	"runtime"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"

	"github.com/tare-mesh/tare/internal/base/execution"
	"github.com/tare-mesh/tare/internal/base/hint"
	"github.com/tare-mesh/tare/internal/base/httpserver"
	"github.com/tare-mesh/tare/internal/base/routine"
	"github.com/tare-mesh/tare/internal/cli/console"
	"github.com/tare-mesh/tare/internal/experiment/mesh"
	"github.com/tare-mesh/tare/internal/inside/control"
	"github.com/tare-mesh/tare/internal/inside/nodeagent"
	"github.com/tare-mesh/tare/internal/inside/proxy"
	"github.com/tare-mesh/tare/internal/inside/service"
	"github.com/tare-mesh/tare/internal/inside/simulated"
	"github.com/tare-mesh/tare/internal/load/engine"
	"github.com/tare-mesh/tare/internal/load/worker"
)

// commands are in the order of the help output.
var commands = []func() *cobra.Command{newServeCommand, newLoadCommand, newWorkerCommand, newNodeCommand, newExecuteCommand, newProxyCommand, newSinkCommand, newCompletionsCommand, newControlCommand, newProxiesCommand, newCopyCommand, newAtCommand, newFilesCommand}

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

// server answers the requests of tare.
type server interface {
	Serve(ctx context.Context, l net.Listener) error
}

// tokenServer returns a command that listens on the loopback address, or another one, for clients with the token of a file.
func tokenServer(use, short, long, address string, make func(token string) (server, error)) *cobra.Command {
	var listen, tokenFile string
	cmd := &cobra.Command{
		Use: use, Short: short, Long: long, Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if tokenFile == "" {
				return fmt.Errorf("%s: --token-file is missing", use)
			}
			token, err := service.ReadToken(tokenFile)
			if err != nil {
				return err
			}
			s, err := make(token)
			if err != nil {
				return err
			}
			l, err := service.Listen(listen)
			if err != nil {
				return err
			}
			defer l.Close()
			fmt.Fprintf(cmd.OutOrStdout(), "tare-agent: %s listens on %s\n", use, l.Addr())
			return s.Serve(cmd.Context(), l)
		},
	}
	cmd.Flags().StringVar(&listen, "listen", address, "`address` to listen on")
	cmd.Flags().StringVar(&tokenFile, "token-file", "", "`file` with the token that every request needs")
	return cmd
}

func newControlCommand() *cobra.Command {
	var dir, ads string
	var o control.Options
	cmd := tokenServer("control", "Configure Envoys by files: a control plane with a known delay", `control holds the routes and endpoints of services, for a client with the token, and
writes each change to files that Envoys watch. A delay before each change is a standard
weight for measurements of changes.`,
		"127.0.0.1:9097", func(token string) (server, error) {
			p, err := control.New(token, dir, o)
			return &adsServer{p, ads}, err
		})
	f := cmd.Flags()
	f.StringVar(&dir, "dir", ".", "`directory` of the files")
	f.StringVar(&ads, "ads", "", "`address` of delta ADS, which has the background services alone; empty for none")
	f.DurationVar(&o.Delay, "delay", 0, "`time` from a request to its change")
	f.DurationVar(&o.Flap, "flap", 0, "make a mistake: the old route comes back after this `time`, and for as long")
	f.DurationVar(&o.Late, "late", 0, "make a mistake: a second file of each route changes this `time` later")
	f.IntVar(&o.Routes, "routes", 0, "`number` of further routes of each service, which no request matches")
	return cmd
}

// adsServer is a control plane with an address for ADS.
type adsServer struct {
	*control.Plane
	address string
}

// Serve serves requests of tare on l, and streams of proxies.
func (s *adsServer) Serve(ctx context.Context, l net.Listener) error {
	if s.address == "" {
		return s.Plane.Serve(ctx, l)
	}
	streams, err := service.Listen(s.address)
	if err != nil {
		return err
	}
	group, ctx := errgroup.WithContext(ctx)
	group.Go(routine.Guarded(func() error { return s.Plane.Serve(ctx, l) }))
	group.Go(routine.Guarded(func() error { return s.ServeADS(ctx, streams) }))
	return group.Wait()
}

func newNodeCommand() *cobra.Command {
	var root string
	cmd := tokenServer("node", "Read the control groups of a node's containers", `node reads CPU time and memory of containers from the control groups of its node, for a
client with the token: at once, or at planned instants of its own clock. It writes
nothing and starts nothing. It listens on the loopback address: tare reaches it by a
forwarded port.`,
		"127.0.0.1:9096", func(token string) (server, error) { return nodeagent.NewServer(token, root) })
	cmd.Flags().StringVar(&root, "cgroups", "/sys/fs/cgroup", "`directory` of the control-group file system")
	return cmd
}

func newProxiesCommand() *cobra.Command {
	var o simulated.Options
	cmd := tokenServer("proxies", "Simulate proxies: xDS clients that receive and acknowledge", `proxies opens a stream of delta xDS to a control plane for each of many simulated
sidecars. Each subscribes to clusters, endpoints, listeners and routes, acknowledges
every message, and keeps when a change of a background service reached it. A client
with the token reads that.`,
		"127.0.0.1:9098", func(token string) (server, error) { return simulated.New(token, o) })
	f := cmd.Flags()
	f.StringVar(&o.Control, "control", "", "`address` of the control plane")
	f.IntVar(&o.Count, "count", 1, "`number` of proxies")
	f.StringVar(&o.ID, "node", "proxy-{number}", "`id` of each proxy's node; {number} and {ip} are replaced")
	f.StringVar(&o.Metadata, "metadata", "", "metadata of each node, as `JSON`")
	return cmd
}

func newWorkerCommand() *cobra.Command {
	var dir string
	cmd := tokenServer("worker", "Run commands for tare in a pod of load workers", `worker runs one command at a time for a client with the token. The client reads
the command's output by offset, and its files. worker listens on the loopback
address: tare reaches it by a forwarded port.`,
		"127.0.0.1:9095", func(token string) (server, error) { return worker.NewServer(token, dir) })
	cmd.Flags().StringVar(&dir, "dir", "/tmp", "`directory` for the commands to work in")
	return cmd
}
