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
	fail := func(err error) ([]byte, error) { return nil, fmt.Errorf("change %s: %w", id, err) }
	v, p, err := c.processes.alive(id)
	switch {
	case err != nil:
		return fail(err)
	case p == nil:
		return fail(errors.New("it is not running"))
	case v.name != "app":
		return fail(errors.New("it is not a service"))
	case v.pod.own.IsOwn():
		return fail(fmt.Errorf("%w: it is your own program", errors.ErrUnsupported))
	}
	if undo, err = v.pod.serviceAPI(c.workspace.token).Configure(ctx, patch); err != nil {
		return fail(err)
	}
	return undo, nil
}

// serviceAPI is the REST interface of the pod's service. Without a token it can only be read.
func (p *pod) serviceAPI(token string) platform.ServiceAPI {
	return platform.ServiceAPI{Root: "http://" + p.api.String(), Token: token, Timeout: adminTimeout}
}
