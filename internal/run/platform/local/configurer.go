package local

import (
	"context"
	"errors"
	"fmt"

	"github.com/tare-mesh/tare/internal/run/platform"
)

// maxRefusal is the max shown length of a refusal, bytes.
const maxRefusal = 2 << 10

// configurer implements [platform.Configurer], through the services' REST interface.
type configurer struct {
	workspace *workspace
	processes *processes
}

// Configure implements [platform.Configurer].
func (c *configurer) Configure(ctx context.Context, id string, patch []byte) (undo []byte, err error) {
	v, p, err := c.processes.alive(id)
	switch {
	case err != nil:
		return nil, err
	case p == nil:
		return nil, errors.New("it is not running")
	case v.name != "app":
		return nil, errors.New("it is not a service")
	case v.pod.own.IsOwn():
		return nil, fmt.Errorf("%w: it is your own program", errors.ErrUnsupported)
	}
	return v.pod.serviceAPI(c.workspace.token).Configure(ctx, patch)
}

// serviceAPI is the REST interface of the pod's service. Without a token it can only be read.
func (p *pod) serviceAPI(token string) platform.ServiceAPI {
	return platform.ServiceAPI{Root: "http://" + p.api.String(), Token: token, Timeout: adminTimeout}
}
