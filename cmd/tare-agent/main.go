// Command tare-agent runs inside a trial: the services under test and the load
// worker. It is kept small: no Kubernetes, no charts.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/tare-mesh/tare/internal/base/hint"
	"github.com/tare-mesh/tare/internal/base/strict"
)

// commands are in the order of the help output.
var commands = []func() *cobra.Command{newServeCommand, newLoadCommand, newWorkerCommand, newProbeCommand, newProxyCommand, newSidecarCommand, newAdderCommand, newAdderClientCommand, newCopyCommand, newAtCommand, newFilesCommand}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	root := &cobra.Command{
		Use:           "tare-agent",
		Short:         "What runs inside a trial of tare",
		SilenceErrors: true,
		SilenceUsage:  true,
	}
	for _, newCommand := range commands {
		root.AddCommand(newCommand())
	}
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		return &usageError{hint.Hinted{Err: err, Text: "`" + cmd.CommandPath() + " --help` lists the flags"}}
	})
	os.Exit(exitCode(os.Stderr, usage(root.ExecuteContext(ctx))))
}

// usage converts cobra's untyped error about an unknown command, or about
// arguments of a command without any, into the user's mistake.
func usage(err error) error {
	if err != nil && strings.HasPrefix(err.Error(), "unknown command ") {
		return &usageError{hint.Hinted{Err: err, Text: "`tare-agent --help` lists the commands"}}
	}
	return err
}

// usageError is the user's mistake in the command line.
type usageError struct{ hint.Hinted }

// InvalidFile marks the error as the user's mistake, like a mistake in a file.
func (*usageError) InvalidFile() {}

// exitCode prints err in tare's error format and returns the exit status: 2 for
// the user's mistakes, 1 for other errors.
func exitCode(stderr io.Writer, err error) int {
	if err == nil {
		return 0
	}
	var mistakes strict.Problems
	if !errors.As(err, &mistakes) {
		printProblem(stderr, err.Error(), hint.Of(err))
	}
	for _, p := range mistakes {
		printProblem(stderr, p.Error(), p.Hint)
	}
	var invalid interface{ InvalidFile() }
	if errors.As(err, &invalid) {
		return 2
	}
	return 1
}

func printProblem(w io.Writer, message, advice string) {
	fmt.Fprintf(w, "tare-agent: %s\n", message)
	if advice != "" {
		fmt.Fprintf(w, "hint: %s\n", advice)
	}
}
