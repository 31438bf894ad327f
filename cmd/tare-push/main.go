// Command tare-push is tare with the libraries of Prometheus remote write and OTLP. tare starts it for tare report --push.
package main

import (
	"os"

	"github.com/tare-mesh/tare/internal/cli"
	"github.com/tare-mesh/tare/internal/show/push"
)

func main() { os.Exit(cli.MainOfPush(push.Send)) }
