// Command tare-kube is tare with the Kubernetes libraries. tare starts it for commands that need a cluster.
package main

import (
	"os"

	"github.com/tare-mesh/tare/internal/base/heap"
	"github.com/tare-mesh/tare/internal/cli"
	"github.com/tare-mesh/tare/internal/cli/kubecli"
)

func main() {
	heap.CollectLess()
	os.Exit(cli.Main(kubecli.Kubernetes()))
}
