// Command tare-grpc finds gRPC methods and encodes their messages. tare load and tare run start it.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/tare-mesh/tare/internal/cli/console"
	"github.com/tare-mesh/tare/internal/load/describe"
	"github.com/tare-mesh/tare/internal/load/method"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if len(os.Args) == 2 && os.Args[1] == "--version" {
		fmt.Println("tare-grpc", console.Version())
		return
	}
	if len(os.Args) > 1 {
		fmt.Fprintln(os.Stderr, "tare-grpc: tare load grpc://host:port starts this program; it has no commands")
		os.Exit(2)
	}
	if err := method.Serve(ctx, os.Stdin, os.Stdout, describe.Answer); err != nil {
		fmt.Fprintln(os.Stderr, "tare-grpc:", err)
		os.Exit(1)
	}
}
