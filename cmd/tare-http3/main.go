// Command tare-http3 sends a load over HTTP/3. tare load starts it.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/tare-mesh/tare/internal/cli/console"
	"github.com/tare-mesh/tare/internal/load"
	"github.com/tare-mesh/tare/internal/load/engine"
	"github.com/tare-mesh/tare/internal/load/http3"
)

func main() {
	if len(os.Args) == 2 && os.Args[1] == "--version" {
		fmt.Println("tare-http3", console.Version())
		return
	}
	if len(os.Args) != 2 || os.Args[1] != "load" {
		fmt.Fprintln(os.Stderr, "tare-http3: tare load --http3 starts this program; by hand: tare-http3 load < PROFILE.json")
		os.Exit(2)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := engine.Process(ctx, "tare-http3", os.Stdin, os.Stdout, os.Stderr, run); err != nil {
		fmt.Fprintln(os.Stderr, "tare-http3:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, p load.Profile, progress func(load.Progress)) (load.Report, error) {
	return engine.RunOver(ctx, p, progress, http3.NewWorker)
}
