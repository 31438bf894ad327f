// Command tare measures what a service mesh, or any sidecar, adds to an application.
package main

import (
	"os"

	"github.com/tare-mesh/tare/internal/cli"
)

func main() {
	os.Exit(cli.Main(nil))
}
