// Package debate reads and writes the files of the Great Sidecar Debate, a
// published comparison of service meshes: sequences of its benchmark become
// results directories, and results become sequences for its plot script.
package debate

import (
	_ "embed"
	"sync"

	"github.com/tare-mesh/tare/internal/experiment/mesh"
	"github.com/tare-mesh/tare/internal/importer"
	"github.com/tare-mesh/tare/internal/show/report"
)

// name is the name of the source, the format and the attribution.
const name = "great-sidecar-debate"

// Source imports sequences.
func Source() importer.Source {
	return importer.Source{Name: name, Doc: "sequences of the Great Sidecar Debate: {rate}-{run}-metrics.csv with wrk2 or oha logs", Read: read}
}

// Format exports results as sequences.
func Format() report.Format {
	return report.Format{Name: name, Doc: "a directory in that project's layout, for its plot script", Export: export}
}

//go:embed attribution.yaml
var attribution []byte

// Attribution assigns tasks to planes as the study does. It panics if the embedded file is invalid. Every command reads it
// for its help.
var Attribution = sync.OnceValue(func() mesh.Attribution {
	a, err := mesh.DecodeAttribution("attribution.yaml", attribution)
	if err != nil {
		panic(err)
	}
	return a
})
