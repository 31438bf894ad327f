// Package cli is the command line of tare and tare-kube: one file a command.
package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"os"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/tare-mesh/tare/internal/base/hint"
	"github.com/tare-mesh/tare/internal/base/printable"
	"github.com/tare-mesh/tare/internal/base/routine"
	"github.com/tare-mesh/tare/internal/cli/console"
	"github.com/tare-mesh/tare/internal/session"
)

// CommandLine is the command line of tare, or of tare-kube, which has large libraries.
type CommandLine struct {
	console.Console
	program    *session.Program
	kubernetes *Kubernetes // nil but in tare-kube
	handOver   handOver
	// kill ends at the second interrupt: cleaning up stops at once.
	kill  context.Context
	first *interruption
	// lastLine is printed after all else, an error included: the path of the report's page.
	lastLine string
	// endOut writes what a folding output still holds.
	endOut func() error
}

// Main runs the program with the arguments and streams of this process, and returns its exit code.
// A nil kubernetes makes it tare, otherwise it is tare-kube.
func Main(kubernetes *Kubernetes) int {
	return New(console.Console{In: os.Stdin, Out: os.Stdout, Err: os.Stderr}, kubernetes).main()
}

func (c *CommandLine) main() int {
	defer routine.Report()
	log.SetOutput(libraryLog{os.Stderr})
	collectLess()
	keepPipes()
	ctx, kill, stop := interrupts(os.Stderr, c.first)
	defer stop()
	ctx, end := context.WithCancelCause(ctx)
	defer end(nil)
	s := &streams{end: func() { end(console.ErrNoReader) }}
	c.Out, c.Err, c.kill = s.watch(os.Stdout), s.watch(os.Stderr), kill
	return s.code(c.Run(ctx, os.Args[1:]))
}

// libraryLog is the log of libraries without what net/http writes about servers of other protocols, whose error has a hint.
type libraryLog struct{ io.Writer }

func (l libraryLog) Write(p []byte) (int, error) {
	if strings.Contains(string(p), "Unsolicited response received on idle HTTP channel") {
		return len(p), nil
	}
	return l.Writer.Write(p)
}

// New returns a command line on a console.
func New(on console.Console, kubernetes *Kubernetes) *CommandLine {
	c := &CommandLine{Console: on, kubernetes: kubernetes, handOver: newHandOver(), first: &interruption{}}
	var libraries *session.Kubernetes
	if kubernetes != nil {
		libraries = kubernetes.Kubernetes
	}
	c.program = session.NewProgram(console.Version(), libraries)
	c.program.Note = func(line string) { c.Notef("%s", line) }
	return c
}

// Run carries out one command and returns the exit code.
func (c *CommandLine) Run(ctx context.Context, args []string) int {
	err := c.handOver.checkVersion(c.kubernetes != nil)
	if err == nil {
		c.handOver.args = args
		root := c.Root()
		root.SetArgs(args)
		err = root.ExecuteContext(ctx)
		if c.endOut != nil {
			if failed := c.endOut(); err == nil {
				err = failed
			}
		}
		if errors.Is(err, session.ErrKubernetes) {
			err = c.handOver.run(args)
		}
	}
	if errors.Is(err, context.Canceled) && errors.Is(context.Cause(ctx), console.ErrNoReader) {
		err = console.ErrNoReader // a pipe without a reader is not an interrupt
	}
	var message strings.Builder
	code := console.Exit(&message, "tare", err)
	fmt.Fprint(c.Err, printable.WithoutPasswords(message.String(), args))
	if c.lastLine != "" {
		fmt.Fprintf(c.Err, "\n%s\n", c.lastLine)
	}
	return code
}

// Root is the command tare with all its subcommands.
func (c *CommandLine) Root() *cobra.Command {
	root := &cobra.Command{
		Use:   "tare",
		Short: "Measure what a service mesh, or any sidecar, adds to an application",
		Long: `tare measures what a service mesh, or any sidecar, adds to an application:
CPU, memory, latency, throughput, failures. One file lists what to compare. The
result is a difference with an interval and a verdict.`,
		Version:       console.Version(),
		SilenceErrors: true,
		SilenceUsage:  true,
		Annotations:   asPlugin(os.Args[0]),
		Args:          refuseUnknown,
		RunE:          func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	root.SetIn(c.In)
	root.SetOut(c.Out)
	root.SetErr(c.Err)
	root.SetVersionTemplate("tare {{.Version}}\n")
	root.SetUsageFunc(foldedUsage)
	helpOfRoot(root)
	root.PersistentPreRunE = func(cmd *cobra.Command, _ []string) error {
		if format := cmd.Flags().Lookup("format"); slices.Contains([]string{"plan", "doctor", "size", "forecast"}, cmd.Name()) && (format == nil || !format.Changed) {
			c.Out, c.endOut = console.Folded(c.Out)
		}
		return nil
	}
	root.SetFlagErrorFunc(flagError)
	for _, newCommand := range commands {
		cmd := newCommand(c)
		cmd.Args = UsageArgs(cmd.Args)
		root.AddCommand(cmd)
	}
	root.AddCommand(&cobra.Command{
		Use: "version", Short: "Print the version", Args: UsageArgs(cobra.NoArgs),
		Example: "  tare version",
		Run:     func(*cobra.Command, []string) { fmt.Fprintf(c.Out, "tare %s\n", console.Version()) },
	})
	completeWords(root)
	return root
}

// plugin is the program's name as a plugin of kubectl, by a link.
const plugin = "kubectl-tare"

// asPlugin makes usage lines begin with the command that the user typed.
func asPlugin(program string) map[string]string {
	if filepath.Base(program) != plugin {
		return nil
	}
	return map[string]string{cobra.CommandDisplayNameAnnotation: "kubectl tare"}
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
			if len(args) == 0 {
				err = errors.New("nothing is named")
			}
			return hint.Usage(err, "usage: "+cmd.UseLine())
		}
		return nil
	}
}

const (
	heapPercent = 1000      // of the live heap, as GOGC, and the first collection is at 40 MiB
	heapLimit   = 384 << 20 // bytes, as GOMEMLIMIT: near it garbage is collected more often
)

// collectLess makes garbage collection rare: a command that reads results makes much garbage, keeps little
// and ends soon. Each decoded histogram makes 42 KiB of garbage, and garbage made during a collection counts as
// live: a report of 2,000 trials keeps 26 MiB and comes to the limit. GOGC or GOMEMLIMIT disable this.
func collectLess() {
	if os.Getenv("GOGC") != "" || os.Getenv("GOMEMLIMIT") != "" {
		return
	}
	debug.SetGCPercent(heapPercent)
	debug.SetMemoryLimit(heapLimit)
}
