// Command tare-agent is what runs inside a trial: the services under test and
// the load worker. It is kept small: no Kubernetes, no charts.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"
)

// commands in the order in which help shows them.
var commands = []func() *cobra.Command{newServeCommand, newLoadCommand, newWorkerCommand, newProbeCommand, newProxyCommand, newSidecarCommand, newAdderCommand, newAdderClientCommand}

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
	if err := root.ExecuteContext(ctx); err != nil {
		fmt.Fprintf(os.Stderr, "tare-agent: %v\n", err)
		var hinted interface{ Hint() string }
		if errors.As(err, &hinted) && hinted.Hint() != "" {
			fmt.Fprintf(os.Stderr, "hint: %s\n", hinted.Hint())
		}
		os.Exit(1)
	}
}
