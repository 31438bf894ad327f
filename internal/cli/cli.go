// Package cli is the command line of tare and tare-kube: one file a command.
package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"os"
	"os/signal"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/tare-mesh/tare/internal/base/companion"
	"github.com/tare-mesh/tare/internal/base/hint"
	"github.com/tare-mesh/tare/internal/base/printable"
	"github.com/tare-mesh/tare/internal/base/routine"
	"github.com/tare-mesh/tare/internal/cli/console"
	"github.com/tare-mesh/tare/internal/cli/health"
	"github.com/tare-mesh/tare/internal/predict"
	"github.com/tare-mesh/tare/internal/session"
	"github.com/tare-mesh/tare/internal/show/page"
	"github.com/tare-mesh/tare/internal/show/series"
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

// Undoing is the message of the first interrupt of a command that undoes its changes.
const Undoing = "\ntare: interrupted: undoing the changes; press Ctrl-C twice more to stop immediately"

// WhileInterrupted sets what the first interrupt does, until the returned function is called. Without it a second interrupt
// ends the program at once.
func (c *CommandLine) WhileInterrupted(leave func(), message string) func() {
	return c.atInterrupt(true, leave, message)
}

// atInterrupt is [CommandLine.WhileInterrupted]. Without anything to clean up, the command ends soon after the first interrupt.
func (c *CommandLine) atInterrupt(cleans bool, leave func(), message string) func() {
	put := func(set bool, leave func(), message string) {
		c.first.mu.Lock()
		defer c.first.mu.Unlock()
		c.first.set, c.first.leave, c.first.message = set, leave, message
	}
	put(cleans, leave, message)
	return func() { put(false, nil, "") }
}

// interruptSelf is the interrupt of a key: a terminal in raw mode sends no signal.
func interruptSelf() { _ = syscall.Kill(os.Getpid(), syscall.SIGINT) }

// unheededWithin is the time of a command with nothing to clean up from the first interrupt to its end. Analysis of a
// damaged directory, for example, does not check the context.
var unheededWithin = 5 * time.Second

// interrupts returns a context that ends at the first interrupt (drain, remove,
// keep the records) and one that ends at the second (stop now). Without anything to clean up the second ends the program,
// and so does the first after some seconds.
func interrupts(stderr io.Writer, first *interruption) (ctx, kill context.Context, stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	kill, cancelKill := context.WithCancel(context.Background())
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	if !signal.Ignored(syscall.SIGHUP) { // nohup ignores it
		signal.Notify(signals, syscall.SIGHUP) // the terminal, such as an SSH session's, is gone
	}
	done := make(chan struct{})
	go routine.Guarded(func() {
		for _, act := range []func(){
			func() {
				first.begin(stderr)
				cancel()
				if !first.cleans() {
					time.AfterFunc(unheededWithin, func() {
						fmt.Fprintln(stderr, "tare: interrupted")
						os.Exit(console.Interrupted)
					})
				}
			},
			func() {
				if !first.cleans() {
					os.Exit(console.Interrupted)
				}
				cancelKill()
			},
			func() { os.Exit(console.Interrupted) },
		} {
			select {
			case <-signals:
				act()
			case <-done:
				return
			}
		}
	})()
	return ctx, kill, func() {
		signal.Stop(signals)
		close(done)
		cancel()
		cancelKill()
	}
}

// interruptedRun is the message of the first interrupt of a command that runs trials.
const interruptedRun = "\ntare: interrupted: removing the running trial, keeping finished trials; press Ctrl-C again to stop immediately"

// interruption is the work of the first interrupt before it ends the context.
type interruption struct {
	mu      sync.Mutex
	set     bool // there is something to clean up, until the second interrupt
	leave   func()
	message string
}

// begin makes the terminal as it was before the command, and prints the message.
func (i *interruption) begin(stderr io.Writer) {
	i.mu.Lock()
	leave, message := i.leave, i.message
	i.mu.Unlock()
	if leave != nil {
		leave()
	}
	if message != "" {
		fmt.Fprintln(stderr, message)
	}
}

// cleans reports whether a command still cleans up after the first interrupt.
func (i *interruption) cleans() bool {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.set
}

// streams are the outputs of this process. The reader of one may end before tare, as in
// `tare report DIR | head -1`.
type streams struct {
	gone atomic.Bool           // a reader ended
	lost atomic.Pointer[error] // the first output that was not written
	end  func()                // the context of the command
}

// watch returns a writer to f that notices the end of its reader, and output that is lost, as on a full disk. A terminal has neither.
func (s *streams) watch(f *os.File) io.Writer {
	if term.IsTerminal(int(f.Fd())) {
		return f
	}
	return &pipe{f, s}
}

// pipe is an output to another process or a file.
type pipe struct {
	to      *os.File
	streams *streams
}

func (p *pipe) Write(b []byte) (int, error) {
	n, err := p.to.Write(b)
	if errors.Is(err, syscall.EPIPE) {
		p.streams.gone.Store(true)
		p.streams.end() // as an interrupt: the trial is removed, and records are kept
		err = fmt.Errorf("%w: %w", console.ErrNoReader, err)
	} else if err != nil && p.to == os.Stdout {
		p.streams.lost.CompareAndSwap(nil, &err)
	}
	return n, err
}

func (s *streams) code(code int) int {
	if s.gone.Load() {
		return console.NoReader
	}
	if lost := s.lost.Load(); lost != nil && code == console.Done { // a command that failed has printed why
		fmt.Fprintf(os.Stderr, "tare: %v\n", *lost)
		return console.Failed
	}
	return code
}

// keepPipes makes a write without a reader an error. Otherwise SIGPIPE ends tare at once, and its
// deployment is left. Children get the default again, which they would not after signal.Ignore.
func keepPipes() { signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE) }

// Kubernetes is everything that needs large libraries: of Kubernetes, for figures in files, for databases. cmd/tare-kube
// passes it in, but cmd/tare has none.
type Kubernetes struct {
	*session.Kubernetes
	// Commands by name, without their summaries, which the list of commands has.
	Commands map[string]func(*CommandLine) *cobra.Command

	// DryRun writes the manifests and commands of one trial of each treatment.
	DryRun func(ctx context.Context, s *session.Study, results string, to io.Writer) error
	// Examine checks the cluster of an experiment.
	Examine func(context.Context, *session.Study) []health.Row

	// Sidecars reads the sidecars that run in a namespace, with requests/s counted for a time; 0: without.
	Sidecars func(ctx context.Context, namespace string, window time.Duration) (predict.Sidecars, error)

	// Draw writes a figure of a page's data as SVG.
	Draw func(w io.Writer, data []byte, d page.Drawing) error
	// Push sends time series to a database.
	Push func(ctx context.Context, to *series.Target, all []series.Series) error
}

// kubernetesCommand returns a command that tare hands over to tare-kube: there the command itself, and elsewhere a stub.
func kubernetesCommand(name, short string) func(*CommandLine) *cobra.Command {
	return func(c *CommandLine) *cobra.Command {
		cmd := c.newStub(name)
		if c.kubernetes != nil && c.kubernetes.Commands[name] != nil {
			cmd = c.kubernetes.Commands[name](c)
		}
		cmd.Short = short
		return cmd
	}
}

// tare has no large library: the Kubernetes libraries alone take nine tenths of the time to build tare-kube.
// A command that needs one is handed over to tare-kube, which replaces this process (execve):
// same arguments, environment, streams and process ID. Exit status and signals need no forwarding.

// envVersion carries the version of tare to tare-kube, which must be of the same.
const envVersion = "TARE_HANDED_OVER_BY"

// handOver replaces this process with tare-kube.
type handOver struct {
	args []string // of this process, without the program's name
	exec func(path string, argv, env []string) error
}

func newHandOver() handOver { return handOver{exec: syscall.Exec} }

// checkVersion is called first thing: a process that took over a command must be tare-kube, of tare's version.
func (handOver) checkVersion(isKube bool) error {
	by := os.Getenv(envVersion)
	if by == "" {
		return nil
	}
	_ = os.Unsetenv(envVersion) // children start afresh
	self, _ := os.Executable()
	if !isKube {
		return hint.New("unset "+companion.Kube.Env+", or set it to the path of "+companion.Kube.Name, "%s is tare, not %s", self, companion.Kube.Name)
	}
	if v := console.Version(); v != by {
		return hint.New("`make build-kube` builds both programs from the same source", "version mismatch: tare is %s, %s is %s", by, self, v)
	}
	return nil
}

// newStub is the placeholder in tare of a command of tare-kube. It keeps help and completion of both programs the same.
func (c *CommandLine) newStub(name string) *cobra.Command {
	cmd := &cobra.Command{
		Use:                name,
		DisableFlagParsing: true, // the flags belong to tare-kube
		RunE:               func(*cobra.Command, []string) error { return c.handOver.run(c.handOver.args) },
		ValidArgsFunction: func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
			_ = c.handOver.run(c.handOver.args) // without tare-kube there are no completions
			return nil, cobra.ShellCompDirectiveError
		},
	}
	cmd.SetHelpFunc(func(*cobra.Command, []string) {
		if err := c.handOver.run([]string{name, "--help"}); err != nil {
			fmt.Fprintf(c.Out, "%s.\n\ntare %s is part of %s: %s.\n", cmd.Short, name, companion.Kube.Name, hint.Of(err))
		}
	})
	return cmd
}

// run runs tare-kube with args in place of this process. It returns only if that fails.
func (h handOver) run(args []string) error {
	path, err := companion.Kube.Find()
	if err != nil {
		return err
	}
	// A variable given twice has its first value.
	env := slices.DeleteFunc(os.Environ(), func(s string) bool { return strings.HasPrefix(s, envVersion+"=") })
	env = append(env, envVersion+"="+console.Version())
	name := path
	if filepath.Base(os.Args[0]) == plugin {
		name = plugin
	}
	if err := h.exec(path, append([]string{name}, args...), env); err != nil {
		return hint.New(companion.Kube.Install, "start %s: %w", path, err)
	}
	return nil
}
