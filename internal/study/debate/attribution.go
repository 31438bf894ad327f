package debate

import (
	_ "embed"

	"github.com/tare-mesh/tare/internal/experiment/mesh"
)

//go:embed attribution.yaml
var attribution []byte

// Attribution assigns tasks to planes as the study does. It panics if the embedded file is invalid.
func Attribution() mesh.Attribution {
	a, err := mesh.DecodeAttribution("attribution.yaml", attribution)
	if err != nil {
		panic(err)
	}
	return a
}
