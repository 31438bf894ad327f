package main

import (
	"github.com/spf13/cobra"

	"github.com/tare-mesh/tare/internal/experiment"
	"github.com/tare-mesh/tare/internal/load/generator"
	"github.com/tare-mesh/tare/internal/run/meter"
	"github.com/tare-mesh/tare/internal/run/meter/kubelet"
)

// Every variant tare knows is listed in this file, one line each.

// commands in the order in which help shows them.
var commands = []func(*cli) *cobra.Command{
	newRunCommand,
	newPlanCommand,
	newReportCommand,
	newCompareCommand,
	newHistoryCommand,
	newImportCommand,
	newLoadCommand,
	newDoctorCommand,
	newClusterCommand,
	newMeshCommand,
	newCleanupCommand,
	newImageCommand,
	newListCommand,
	newSchemaCommand,
}

// catalog is every variant there is, built by a call and passed down.
type catalog struct {
	generators []generator.Generator
	platforms  []platformVariant
	meters     []meterVariant              // of a cluster, the default first
	newMeter   func() (meter.Meter, error) // of this machine
}

func newCatalog() catalog {
	return catalog{
		generators: generator.Generators(),
		platforms: []platformVariant{
			{name: "local", doc: "processes on this machine; no root, no cluster", open: openLocal},
			{name: "kubernetes", doc: "pods on a cluster that a kubeconfig names", open: openKubernetes, dry: true, refresh: kubelet.Refresh, overhead: kubernetesOverhead},
		},
		meters: []meterVariant{
			{"kubelet", "counters of the nodes' kubelets, through the API server", openKubelets},
			{"metrics-api", "averages of the Metrics API (metrics.k8s.io), added up", openMetricsAPI},
			{experiment.Prometheus, "samples of a Prometheus that scrapes the kubelets", openPrometheus},
		},
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

// platform finds a platform by name; the experiment file was checked against the same list.
func (c catalog) platform(name string) platformVariant {
	for _, p := range c.platforms {
		if p.name == name {
			return p
		}
	}
	return platformVariant{}
}
