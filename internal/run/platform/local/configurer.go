package local

import (
	"context"
	"errors"
	"fmt"

	"github.com/tare-mesh/tare/internal/run/platform"
)

// maxRefusal is the max shown length of a refusal, bytes.
const maxRefusal = 2 << 10

// Configure implements [platform.Configurer], through the services' REST interface.
func (ps *processes) Configure(ctx context.Context, id string, patch []byte) (undo []byte, err error) {
	api, err := ps.api(id)
	if err != nil {
		return nil, err
	}
	return api.Configure(ctx, patch)
}

// Configuration implements [platform.Configurer].
func (ps *processes) Configuration(ctx context.Context, id string) ([]byte, error) {
	api, err := ps.api(id)
	if err != nil {
		return nil, err
	}
	return api.Configuration(ctx)
}

// api is the REST interface of a service by the ID of its task.
func (ps *processes) api(id string) (api platform.ServiceAPI, err error) {
	v, p, err := ps.alive(id)
	switch {
	case err != nil:
		return api, err
	case p == nil:
		return api, errors.New("it is not running")
	case v.name != "app":
		return api, errors.New("it is not a service")
	case v.pod.own.IsOwn():
		return api, fmt.Errorf("%w: it is your own program", errors.ErrUnsupported)
	}
	return v.pod.serviceAPI(ps.workspace.token), nil
}

// serviceAPI is the REST interface of the pod's service. Without a token it can only be read.
func (p *pod) serviceAPI(token string) platform.ServiceAPI {
	return platform.ServiceAPI{Root: "http://" + p.api.String(), Token: token, Timeout: adminTimeout}
}
