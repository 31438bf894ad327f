// Command tare-plot is tare with the libraries that draw figures into files. tare starts it for tare plot.
package main

import (
	"os"

	"github.com/tare-mesh/tare/internal/cli"
	"github.com/tare-mesh/tare/internal/show/plot"
)

func main() { os.Exit(cli.MainOfPlot(plot.Draw)) }
