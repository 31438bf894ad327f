package cli

import (
	"time"

	"github.com/spf13/cobra"

	"github.com/tare-mesh/tare/internal/base/fetch"
	"github.com/tare-mesh/tare/internal/experiment"
	"github.com/tare-mesh/tare/internal/experiment/app"
	"github.com/tare-mesh/tare/internal/experiment/mesh"
	"github.com/tare-mesh/tare/internal/importer"
	"github.com/tare-mesh/tare/internal/run/generator"
	"github.com/tare-mesh/tare/internal/run/meter"
	"github.com/tare-mesh/tare/internal/show/report"
	"github.com/tare-mesh/tare/internal/study/debate"
	"github.com/tare-mesh/tare/internal/study/sidecar"
	"github.com/tare-mesh/tare/internal/study/uds"
)

// Every variant is listed in this file, one line each.

// commands in the order in which help shows them.
var commands = []func(*CommandLine) *cobra.Command{
	newRunCommand,
	newWeighCommand,
	newPlanCommand,
	newWatchCommand,
	newReportCommand,
	newPlotCommand,
	newServeCommand,
	newCompareCommand,
	newABCommand,
	newHistoryCommand,
	newVerifyCommand,
	newSignCommand,
	newImportCommand,
	newLoadCommand,
	newDoctorCommand,
	clusterCommand.newCommand,
	meshCommand.newCommand,
	cleanupCommand.newCommand,
	imageCommand.newCommand,
	newListCommand,
	newSchemaCommand,
	newReferenceCommand,
}

// importSources are the sources of `tare import`: published studies, then load generators.
func importSources() []importer.Source {
	return append([]importer.Source{debate.Source(), uds.Source()}, importer.Generators()...)
}

// reportFormats are the formats of `tare report`, the default first, and those of published studies last.
func reportFormats(o report.Options) []report.Format {
	return append(report.Formats(o), pageFormat(), debate.Format())
}

// attributions are the classifications of tasks of published studies.
func attributions() []mesh.Attribution { return []mesh.Attribution{debate.Attribution()} }

// catalog is every variant, built by a call and passed down.
type catalog struct {
	generators []generator.Generator
	platforms  []platformVariant
	programs   app.Programs
	newMeter   func() (meter.Meter, error) // of this machine
}

// Names of the meters of a cluster, as platform.meter has them.
const (
	MeterKubelet    = experiment.Kubelet
	MeterMetricsAPI = "metrics-api"
	MeterNodeAgent  = experiment.NodeAgent
)

// clusterMeters in order of preference.
var clusterMeters = []struct{ name, doc string }{
	{MeterKubelet, "counters of the nodes' kubelets, through the API server"},
	{MeterMetricsAPI, "averages of the Metrics API (metrics.k8s.io), added up"},
	{MeterNodeAgent, "control groups of the nodes, read by tare's agent on each; only on disposable clusters"},
}

// kubernetesOverhead is about how long deploying and removing a trial takes.
const kubernetesOverhead = 20 * time.Second

func newCatalog(kubernetes *Kubernetes) catalog {
	cluster := platformVariant{name: mesh.OnKubernetes, doc: "pods on a cluster that a kubeconfig names", refresh: meter.KubeletRefresh, overhead: kubernetesOverhead}
	if kubernetes != nil {
		cluster.open = kubernetes.Open
	}
	return catalog{
		generators: generator.Generators(),
		platforms: []platformVariant{
			{name: mesh.OnLocal, doc: "processes on this machine; no root, no cluster", open: openLocal},
			cluster,
		},
		programs: app.Programs{sidecar.Program()},
		newMeter: func() (meter.Meter, error) { return meter.NewLocal() },
	}
}

// byName are the load generators by the level of the factor generator.
func (c catalog) byName() map[string]generator.Generator {
	all := map[string]generator.Generator{}
	for _, g := range c.generators {
		all[g.Name()] = g
	}
	return all
}

// platform finds a platform by name. The experiment file was checked against the same list.
func (c catalog) platform(name string) platformVariant {
	for _, p := range c.platforms {
		if p.name == name {
			return p
		}
	}
	return platformVariant{}
}

// known are the names that an experiment file may use.
func (c catalog) known() experiment.Known {
	known := experiment.Known{
		Meshes:     mesh.Names(),
		Versions:   fetch.Versions,
		Protocols:  app.Protocols(),
		Topologies: app.Names(),
		Programs:   c.programs,
	}
	for _, p := range c.platforms {
		known.Platforms = append(known.Platforms, p.name)
	}
	for _, m := range clusterMeters {
		known.Meters = append(known.Meters, m.name)
	}
	for _, g := range c.generators {
		known.Generators = append(known.Generators, g.Name())
	}
	return known
}

// Programs are the programs that services may have.
func (c *CommandLine) Programs() app.Programs { return c.catalog.programs }

// Generators are the load generators by the level of the factor generator.
func (c *CommandLine) Generators() map[string]generator.Generator { return c.catalog.byName() }
