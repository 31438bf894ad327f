// Command tare-agent is what runs inside a trial: the services under test and
// the load worker. It is kept small: no Kubernetes, no charts.
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

	"github.com/tare-mesh/tare/internal/base/strict"
)

// commands in the order in which help shows them.
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
		return usageError{err, "`" + cmd.CommandPath() + " --help` lists the flags"}
	})
	os.Exit(exitCode(os.Stderr, usage(root.ExecuteContext(ctx))))
}

// usage makes cobra's own complaint of a command there is not, or of arguments to one
// that takes none, what it is: the user's mistake. It has no type.
func usage(err error) error {
	if err != nil && strings.HasPrefix(err.Error(), "unknown command ") {
		return usageError{err, "`tare-agent --help` lists the commands"}
	}
	return err
}

// usageError is the user's mistake in the command line.
type usageError struct {
	error
	hint string
}

func (e usageError) Unwrap() error { return e.error }

// Hint says what the user can do.
func (e usageError) Hint() string { return e.hint }

// InvalidFile marks the error as the user's mistake, as that in a file is.
func (usageError) InvalidFile() {}

// exitCode prints err as tare prints errors and says how to exit: 2 where what
// the user wrote is to be changed, 1 where something else failed.
func exitCode(stderr io.Writer, err error) int {
	if err == nil {
		return 0
	}
	var mistakes strict.Problems
	if !errors.As(err, &mistakes) {
		hint := ""
		var hinted interface{ Hint() string }
		if errors.As(err, &hinted) {
			hint = hinted.Hint()
		}
		printProblem(stderr, err.Error(), hint)
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

func printProblem(w io.Writer, message, hint string) {
	fmt.Fprintf(w, "tare-agent: %s\n", message)
	if hint != "" {
		fmt.Fprintf(w, "hint: %s\n", hint)
	}
}
