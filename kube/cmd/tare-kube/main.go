// Command tare-kube is tare with large libraries: for Kubernetes, figures in files and databases.
// tare starts it for commands that need them.
package main

import (
	"os"

	"github.com/tare-mesh/tare/internal/cli"
	"github.com/tare-mesh/tare/kube/internal/cli/kubecli"
)

func main() { os.Exit(cli.Main(kubecli.Kubernetes())) }
