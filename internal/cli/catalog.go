package cli

import (
	"github.com/spf13/cobra"

	"github.com/tare-mesh/tare/internal/experiment/mesh"
	"github.com/tare-mesh/tare/internal/importer"
	"github.com/tare-mesh/tare/internal/show/report"
	"github.com/tare-mesh/tare/internal/study/debate"
	"github.com/tare-mesh/tare/internal/study/uds"
)

// Every variant is listed in this file, one line each.

// commands in the order in which help shows them.
var commands = []func(*CommandLine) *cobra.Command{
	newRunCommand,
	newWeighCommand,
	newPlanCommand,
	newWatchCommand,
	newServicesCommand,
	newReportCommand,
	newPlotCommand,
	newServeCommand,
	newCompareCommand,
	newABCommand,
	newSizeCommand,
	newForecastCommand,
	newVerifyCommand,
	newImportCommand,
	newLoadCommand,
	newDoctorCommand,
	kubernetesCommand("cluster", "Create, inspect and clean up a Kubernetes cluster, and mark it as disposable"),
	kubernetesCommand("mesh", "Install, verify and uninstall a mesh in a Kubernetes cluster"),
	newListCommand,
	newSchemaCommand,
}

// importSources are the sources of `tare import`: published studies, then load generators.
func importSources() []importer.Source {
	return append([]importer.Source{debate.Source(), uds.Source()}, importer.Generators()...)
}

// reportFormats are the formats of `tare report`, the default first, and the formats of published studies last.
func reportFormats(o report.Options) []report.Format {
	return append(report.Formats(o), pageFormat(), debate.Format())
}

func attributions() []mesh.Attribution { return []mesh.Attribution{debate.Attribution()} }
