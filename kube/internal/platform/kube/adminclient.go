package kube

import (
	"context"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/tare-mesh/tare/internal/run/platform"
)

// adminTimeout bounds one request to a service's REST interface.
const adminTimeout = 15 * time.Second

// serviceAPI returns the REST interface of a service that tare-agent plays in a pod, through the API server and not through the
// mesh. close ends its connections.
func (t *trial) serviceAPI(pod *corev1.Pod) (api platform.ServiceAPI, close func()) {
	forward := t.cluster.Forward(pod.Namespace, pod.Name, adminPort)
	api = platform.ServiceAPI{Root: "http://" + pod.Name, Token: t.token, Timeout: adminTimeout, Dial: forward.DialContext}
	return api, func() { forward.Close() }
}

// configurer changes the configuration of running services.
type configurer struct{ pods *trialPods }

// Configure implements [platform.Configurer].
func (c *configurer) Configure(ctx context.Context, id string, patch []byte) (undo []byte, err error) {
	err = c.with(id, func(api platform.ServiceAPI) error {
		undo, err = api.Configure(ctx, patch)
		return err
	})
	return undo, err
}

// Configuration implements [platform.Configurer].
func (c *configurer) Configuration(ctx context.Context, id string) (config []byte, err error) {
	err = c.with(id, func(api platform.ServiceAPI) error {
		config, err = api.Configuration(ctx)
		return err
	})
	return config, err
}

// with calls the REST interface of a service by the ID of its task.
func (c *configurer) with(id string, call func(platform.ServiceAPI) error) error {
	pod, err := c.pods.find(id)
	if err != nil {
		return err
	}
	api, done := c.pods.serviceAPI(pod)
	defer done()
	return call(api)
}
