package debate

import (
	_ "embed"
	"sync"

	"github.com/tare-mesh/tare/internal/experiment/mesh"
)

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
