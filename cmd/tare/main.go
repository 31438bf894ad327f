// Command tare measures what a service mesh, or any sidecar, adds to an application.
package main

import (
	"os"

	"github.com/tare-mesh/tare/internal/base/heap"
	"github.com/tare-mesh/tare/internal/cli"
)

func main() {
	heap.CollectLess()
	os.Exit(cli.Main(nil))
}
