package experiment

import (
	"fmt"

	"github.com/tare-mesh/tare/internal/base/hint"
	"github.com/tare-mesh/tare/internal/experiment/app"
	"github.com/tare-mesh/tare/internal/experiment/mesh"
)

// Combination is what a trial puts together. The definitions of applications and meshes have the data.
type Combination struct {
	Application app.Topology
	Protocol    string // of the load
	Mesh        mesh.Definition
	Platform    string
}

// Refused returns the factor whose level does not go with the others, and the reason. Without one the error is nil.
func (c Combination) Refused() (factor string, err error) {
	if err := c.Application.Speaks(c.Protocol); err != nil {
		return "protocol", err
	}
	if err := c.Mesh.On(c.Platform); err != nil {
		return "mesh", err
	}
	if c.Platform != mesh.OnLocal {
		return "", nil
	}
	if c.Application.Chart != nil {
		return ApplicationFactor, hint.New("write platform: {kind: kubernetes}", "a chart needs a cluster, and the platform is local")
	}
	for _, s := range c.Application.Services {
		p := c.Application.ProtocolOf(s, c.Protocol)
		if err := c.Mesh.Forwards(s.Carried(p)); err != nil {
			if s.Secure() {
				p = "TLS of its own, which sidecars forward as tcp"
			}
			return "mesh", fmt.Errorf("service %s uses %s, and %w", s.Name, p, err)
		}
	}
	return "", nil
}
