// Command tare-agent runs inside a trial: the services under test and the load
// worker. It is kept small: no Kubernetes, no charts.
package main

import (
	"context"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/tare-mesh/tare/internal/base/hint"
	"github.com/tare-mesh/tare/internal/cli/console"
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
