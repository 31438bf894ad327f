// Package cli is the command line of tare and tare-kube: one file a command.
package cli

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/signal"
	"runtime/debug"
	"strings"
	"sync"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/tare-mesh/tare/internal/cli/console"
)

// CommandLine is the command line of tare, of tare-kube, which has Kubernetes, or of tare-plot, which draws.
type CommandLine struct {
	console.Console
	catalog    catalog
	kubernetes *Kubernetes // nil but in tare-kube
	draw       Draw        // nil but in tare-plot
	handOver   handOver
	// kill ends at the second interrupt: cleaning up stops at once.
	kill     context.Context
	sweeping sync.Once
}

// Main runs the program with the arguments and streams of this process, and returns its exit code.
// A nil kubernetes makes it tare, otherwise it is tare-kube.
func Main(kubernetes *Kubernetes) int {
	return New(console.Console{In: os.Stdin, Out: os.Stdout, Err: os.Stderr}, kubernetes).main()
}

// MainOfPlot is Main of tare-plot.
func MainOfPlot(draw Draw) int {
	c := New(console.Console{In: os.Stdin, Out: os.Stdout, Err: os.Stderr}, nil)
	c.draw = draw
	return c.main()
}

func (c *CommandLine) main() int {
	keepPipes()
	ctx, kill, stop := interrupts(os.Stderr)
	defer stop()
	ctx, end := context.WithCancel(ctx)
	defer end()
	s := &streams{end: end}
	c.Out, c.Err, c.kill = s.watch(os.Stdout), s.watch(os.Stderr), kill
	return s.code(c.Run(ctx, os.Args[1:]))
}

// New returns a command line on a console.
func New(on console.Console, kubernetes *Kubernetes) *CommandLine {
	return &CommandLine{Console: on, catalog: newCatalog(kubernetes), kubernetes: kubernetes, handOver: newHandOver()}
}

// Run carries out one command and returns the exit code.
func (c *CommandLine) Run(ctx context.Context, args []string) int {
	err := c.handOver.checkVersion(c.role())
	if err == nil {
		c.handOver.args = args
		root := c.Root()
		root.SetArgs(args)
		err = root.ExecuteContext(ctx)
	}
	return console.Exit(c.Err, "tare", err)
}

// role is the name of the program that this process is.
func (c *CommandLine) role() string {
	switch {
	case c.kubernetes != nil:
		return kubeProgram.name
	case c.draw != nil:
		return plotProgram.name
	}
	return "tare"
}

// Root is the command tare with all its subcommands.
func (c *CommandLine) Root() *cobra.Command {
	root := &cobra.Command{
		Use:   "tare",
		Short: "Measure what a service mesh, or any sidecar, adds to an application",
		Long: `tare measures what a service mesh, or any sidecar, adds to an application:
CPU, memory, latency, throughput, failures. One file lists what to compare. The
result is a difference with an interval and a verdict.`,
		Example: `  tare plan examples/quickstart.yaml     # print the trials, their order and duration
  tare run examples/quickstart.yaml      # run them and print the report
  tare report runs/quickstart-…          # print the report again, from the raw records`,
		Version:       Version(),
		SilenceErrors: true,
		SilenceUsage:  true,
		Args:          refuseUnknown,
		RunE:          func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	root.SetIn(c.In)
	root.SetOut(c.Out)
	root.SetErr(c.Err)
	root.SetVersionTemplate("tare {{.Version}}\n")
	root.SetFlagErrorFunc(flagError)
	for _, newCommand := range commands {
		cmd := newCommand(c)
		cmd.Args = UsageArgs(cmd.Args)
		root.AddCommand(cmd)
	}
	return root
}

// UsageArgs makes a wrong number of arguments a usage error.
func UsageArgs(check cobra.PositionalArgs) cobra.PositionalArgs {
	if check == nil {
		return nil
	}
	return func(cmd *cobra.Command, args []string) error {
		if err := check(cmd, args); err != nil {
			if strings.HasPrefix(err.Error(), "unknown command ") { // cobra.NoArgs of a group of commands
				return refuseUnknown(cmd, args)
			}
			return console.Usage(err, "usage: "+cmd.UseLine())
		}
		return nil
	}
}

// interrupts returns a context that ends at the first interrupt (drain, remove,
// keep the records) and one that ends at the second (stop now).
func interrupts(stderr io.Writer) (ctx, kill context.Context, stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	kill, cancelKill := context.WithCancel(context.Background())
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	if !signal.Ignored(syscall.SIGHUP) { // nohup ignores it
		signal.Notify(signals, syscall.SIGHUP) // the terminal, such as that of an SSH session, is gone
	}
	done := make(chan struct{})
	go func() {
		for _, act := range []func(){
			func() {
				fmt.Fprintln(stderr, "\ntare: interrupted: removing what runs and keeping the records; interrupt again to stop at once")
				cancel()
			},
			func() { cancelKill() },
			func() { os.Exit(console.Interrupted) },
		} {
			select {
			case <-signals:
				act()
			case <-done:
				return
			}
		}
	}()
	return ctx, kill, func() {
		signal.Stop(signals)
		close(done)
		cancel()
		cancelKill()
	}
}

// Version is the one that the build recorded: a release's tag, or the commit.
func Version() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "unknown"
	}
	if v := info.Main.Version; v != "" && v != "(devel)" {
		return v
	}
	if buildVersion != "" {
		return buildVersion
	}
	return "devel"
}

// buildVersion is set by the Makefile from git: a build in a work tree may not record its version.
var buildVersion string
