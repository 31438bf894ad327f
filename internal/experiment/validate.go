package experiment

import (
	"fmt"
	"time"

	"github.com/tare-mesh/tare/internal/base/strict"
	"github.com/tare-mesh/tare/internal/experiment/mesh"
)

// Bounds of fields. They catch typing errors and do not restrict large experiments.
const (
	MaxTrials = 10_000

	maxRate        = 10e6
	maxConnections = 32_768 // more than the ephemeral ports of one address on Linux
	maxReplicas    = 1000
	maxBodySize    = Size(1 << 30)
	maxWorkers     = 256
	maxPhase       = Duration(24 * time.Hour)
	minMeasure     = Duration(time.Second)
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

// Validate returns every mistake of the file as a [strict.Problems], or nil. It changes nothing. A file that names others
// has had them read before. The order of the rules decides which of two contradicting fields is reported.
func (f *File) Validate(names Names) error {
	v := validation{f.Document.Clone(), f.Experiment, names}
	v.header()
	v.bounds()
	platformRules{v}.validate()
	applicationRules{v}.validate()
	platformRules{v}.workloads()
	factorRules{v}.factors()
	meshRules{v}.validate()
	loadRules{v}.validate()
	scheduleRules{v}.validate()
	factorRules{v}.baseline()
	faultRules{v}.validate()
	return v.doc.Err()
}

// report adds a mistake, unless the same field has one already.
func (v validation) report(path, hint, format string, args ...any) {
	if v.doc.Sound(path) {
		v.doc.Report(path, fmt.Sprintf(format, args...), hint)
	}
}

func clip(s string) string {
	if r := []rune(s); len(r) > 60 {
		return string(r[:60]) + "…"
	}
	return s
}

func (v validation) header() {
	v.fixed("apiVersion", v.e.APIVersion, APIVersion)
	v.fixed("kind", v.e.Kind, Kind)
	if v.e.Metadata.Name == "" {
		v.report("metadata.name", "add metadata: {name: my-experiment}", "the name is missing")
	}
}

// fixed reports a field that does not have its only possible value.
func (v validation) fixed(path, value, want string) {
	switch {
	case !v.doc.Has(path):
		v.report(path, "write "+path+": "+want, "missing, expected %q", want)
	case value != want:
		v.report(path, "write "+path+": "+want, "found %q, expected %q", clip(value), want)
	}
}

// onClusters reports fields that the local platform does not have.
func (v validation) onClusters(paths ...string) {
	for _, path := range paths {
		if v.doc.Has(path) {
			v.report(path, "remove it, or write platform: {kind: kubernetes}", "it applies to clusters, and the platform is local")
		}
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
	if named := e.meshes(); len(named) > 0 {
		return named
	}
	return []string{DefaultLevels().Mesh}
}
