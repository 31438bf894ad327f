package experiment

import (
	"slices"

	"github.com/tare-mesh/tare/internal/experiment/app"
)

// ReferenceMesh is the mesh of the standard weight: the reference proxy without added cost.
const ReferenceMesh = "reference"

// reference checks reference: true. The reference proxy runs beside each baseline.
func (v scheduleRules) reference() {
	if !v.e.Reference {
		return
	}
	switch {
	case !v.local():
		v.report("reference", "remove it, or write platform: {kind: local}", "the reference proxy runs on platform local only")
	case v.e.Baseline == nil:
		v.report("reference", "name a baseline, such as {mesh: none}", "a standard weight needs a baseline")
	case slices.Contains(v.e.meshes(), ReferenceMesh):
		v.report("reference", "remove it, or the mesh", "mesh %s is among the levels already", ReferenceMesh)
	case !v.plainHTTP():
		v.report("reference", "use protocol http1 for the load and all services", "the reference proxy forwards HTTP/1.1 only")
	}
}

func (v scheduleRules) plainHTTP() bool {
	protocols := v.e.protocols()
	all, err := v.e.Topologies()
	for _, t := range all {
		for _, s := range t.Services {
			protocols = append(protocols, s.Protocol)
		}
	}
	return err == nil && !slices.ContainsFunc(protocols, func(p string) bool { return p != "" && p != app.HTTP1 })
}
