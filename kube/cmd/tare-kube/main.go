// Command tare-kube is tare with large libraries: for Kubernetes, gRPC messages, figures in files and databases.
// tare starts it for commands that need them.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/tare-mesh/tare/internal/base/routine"
	"github.com/tare-mesh/tare/internal/cli"
	"github.com/tare-mesh/tare/internal/load"
	"github.com/tare-mesh/tare/internal/load/describe"
	"github.com/tare-mesh/tare/kube/internal/cli/kubecli"
)

func main() {
	if len(os.Args) == 2 && os.Args[1] == load.GRPCTask {
		os.Exit(task(describeGRPC))
	}
	os.Exit(cli.Main(kubecli.Kubernetes()))
}

// task does one task for tare, and returns the exit code.
func task(run func(context.Context) error) int {
	defer routine.Report()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx); err != nil {
		fmt.Fprintf(os.Stderr, "tare-kube: %s: %v\n", os.Args[1], err)
		return 1
	}
	return 0
}

// describeGRPC answers a query about gRPC methods.
func describeGRPC(ctx context.Context) error {
	return load.AnswerGRPC(ctx, os.Stdin, os.Stdout, describe.Answer)
}
