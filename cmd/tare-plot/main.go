// Command tare-plot is tare with what draws figures into files. tare starts it for tare plot.
package main

import (
	"os"

	"github.com/tare-mesh/tare/internal/cli"
	"github.com/tare-mesh/tare/internal/show/plot"
)

func main() { os.Exit(cli.MainOfPlot(plot.Draw)) }
