// Command tare weighs what a service mesh, or any sidecar, adds to an application.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"runtime/debug"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/tare-mesh/tare/internal/base/heap"
)

// Exit codes. The whole list is here and nowhere else.
const (
	exitDone        = 0
	exitFailed      = 1
	exitUsage       = 2 // usage, or an invalid file
	exitIncomplete  = 3 // finished, some trials failed or were invalid
	exitGate        = 4 // a gate or an expectation did not hold
	exitInterrupted = 130
)

func main() {
	heap.CollectLess()
	os.Exit(run(os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
}

// cli is what every command needs: where results go (stdout) and where all else goes (stderr).
type cli struct {
	stdin          io.Reader
	stdout, stderr io.Writer
	catalog        catalog
	// kill ends at the second interrupt: whoever still cleans up stops at once.
	kill context.Context
}

// run is main as a function of its surroundings, so that tests need no process.
func run(args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	ctx, kill, stop := interrupts(stderr)
	defer stop()
	c := &cli{stdin: stdin, stdout: stdout, stderr: stderr, catalog: newCatalog(), kill: kill}
	root := newRootCommand(c)
	root.SetArgs(args)
	return exitCode(stderr, root.ExecuteContext(ctx))
}

func newRootCommand(c *cli) *cobra.Command {
	root := &cobra.Command{
		Use:   "tare",
		Short: "Weigh what a service mesh, or any sidecar, adds to an application",
		Long: `tare weighs what a service mesh, or any sidecar, adds to an application:
CPU, memory, latency, throughput, failures. One file says what to compare; the
answer is a difference with an interval and a verdict.`,
		Example: `  tare plan examples/quickstart.yaml     # what would run, in which order, for how long
  tare run examples/quickstart.yaml      # run it and print the answer
  tare report runs/quickstart-…          # print the answer again, from the raw record`,
		Version:       version(),
		SilenceErrors: true,
		SilenceUsage:  true,
		Args:          cobra.NoArgs,
		RunE:          func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	root.SetIn(c.stdin)
	root.SetOut(c.stdout)
	root.SetErr(c.stderr)
	root.SetVersionTemplate("tare {{.Version}}\n")
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		return usageError{fmt.Errorf("%w", err), "`" + cmd.CommandPath() + " --help` lists the flags"}
	})
	for _, newCommand := range commands {
		cmd := newCommand(c)
		cmd.Args = usageArgs(cmd.Args)
		root.AddCommand(cmd)
	}
	return root
}

// usageArgs makes a wrong number of arguments a usage error.
func usageArgs(check cobra.PositionalArgs) cobra.PositionalArgs {
	if check == nil {
		return nil
	}
	return func(cmd *cobra.Command, args []string) error {
		if err := check(cmd, args); err != nil {
			return usageError{err, "usage: " + cmd.UseLine()}
		}
		return nil
	}
}

// usageError is the user's mistake, not a failure: exit code 2.
type usageError struct {
	error
	hint string
}

func (e usageError) Unwrap() error { return e.error }
func (e usageError) Hint() string  { return e.hint }

// exitError carries an exit code that is not plain failure; a nil error prints nothing.
type exitError struct {
	error
	code int
}

func (e exitError) Unwrap() error { return e.error }

// exitCode prints err as tare prints errors and says how to exit.
func exitCode(stderr io.Writer, err error) int {
	if err == nil {
		return exitDone
	}
	var exit exitError
	isExit := errors.As(err, &exit)
	if !isExit || exit.error != nil {
		printError(stderr, err)
	}
	var usage usageError
	switch {
	case isExit:
		return exit.code
	case errors.As(err, &usage), isUnknownCommand(err), isInvalidFile(err):
		return exitUsage
	case errors.Is(err, context.Canceled):
		return exitInterrupted
	}
	return exitFailed
}

// isInvalidFile recognises mistakes in a file the user wrote.
func isInvalidFile(err error) bool {
	var invalid interface{ InvalidFile() }
	return errors.As(err, &invalid)
}

// isUnknownCommand recognises cobra's own complaint, which has no type.
func isUnknownCommand(err error) bool {
	return strings.HasPrefix(err.Error(), "unknown command ")
}

// printError writes "tare: what went wrong", then the cure where the error knows one.
func printError(w io.Writer, err error) {
	fmt.Fprintf(w, "tare: %s\n", strings.TrimRight(err.Error(), "\n"))
	var hinted interface{ Hint() string }
	if errors.As(err, &hinted) && hinted.Hint() != "" {
		fmt.Fprintf(w, "hint: %s\n", hinted.Hint())
	}
}

// interrupts returns a context that ends at the first interrupt (drain, remove,
// keep what is recorded) and one that ends at the second (stop now).
func interrupts(stderr io.Writer) (ctx, kill context.Context, stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	kill, cancelKill := context.WithCancel(context.Background())
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	done := make(chan struct{})
	go func() {
		for _, act := range []func(){
			func() {
				fmt.Fprintln(stderr, "\ntare: interrupted: removing what runs and keeping what is recorded; once more to stop at once")
				cancel()
			},
			func() { cancelKill() },
			func() { os.Exit(exitInterrupted) },
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

// version is what the build recorded: a release's tag, or the commit.
func version() string {
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

// buildVersion is set by the Makefile from git, since a build in a work tree does not record it.
var buildVersion string
