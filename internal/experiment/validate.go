package experiment

import (
	"fmt"
	"time"

	"github.com/tare-mesh/tare/internal/base/printable"
	"github.com/tare-mesh/tare/internal/base/strict"
	"github.com/tare-mesh/tare/internal/experiment/mesh"
)

// Bounds of fields. They catch typing errors and do not restrict large experiments.
const (
	MaxTrials = 10_000

	maxConnections = 32_768 // more than the ephemeral ports of one address on Linux
	maxReplicas    = 1000
	maxBodySize    = Size(1 << 30)
	maxPhase       = Duration(24 * time.Hour)
	minMeasure     = Duration(time.Second)
	minSoak        = Duration(10 * time.Second)
	maxTimeout     = Duration(60 * time.Second) // the upper end of the histograms
	maxSeed        = 1<<53 - 1                  // exact in every JSON reader
	maxCPU         = 1023                       // CPU_SETSIZE of Linux
	maxLevels      = 1000
)

// validation is the state that all rules share.
type validation struct {
	doc   *strict.Document
	e     *Experiment
	names Names
}

func clip(s string) string { return printable.Clip(s, 60) }

// onClusters reports fields that the local platform does not have.
func (v validation) onClusters(paths ...string) {
	refuse(v, "", paths, "remove it, or write platform: {kind: kubernetes}", "it applies to clusters, and the platform is local")
}

// refuse reports each of the fields that the file has.
func refuse(v validation, under string, fields []string, hint, message string) {
	for _, field := range fields {
		if v.doc.Has(under + field) {
			v.report(under+field, hint, "%s", message)
		}
	}
}

// report adds a mistake, unless the same field has one already.
func (v validation) report(path, hint, format string, args ...any) {
	if v.doc.Sound(path) {
		v.doc.Report(path, fmt.Sprintf(format, args...), hint)
	}
}

// local reports whether trials run on this machine.
func (v validation) local() bool { return v.e.Platform.Kind == mesh.OnLocal }

// definition returns a mesh's definition, if definitions are known.
func (v validation) definition(name string) (mesh.Definition, bool) {
	d, err := v.e.Definition(name, v.names.Definitions)
	return d, err == nil
}

// meshesOf lists the levels of the factor mesh, or its default.
func meshesOf(e *Experiment) []string {
	return levelsOr(e, MeshFactor, DefaultLevels().Mesh)
}
