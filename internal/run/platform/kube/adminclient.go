package kube

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/tare-mesh/tare/internal/run/platform"
)

const (
	// adminTimeout bounds one request to a service's REST interface.
	adminTimeout = 15 * time.Second
	// maxResponse bounds its response, in bytes.
	maxResponse = 1 << 20
)

// adminClient calls the REST interface of the services that tare-agent plays, through the API server and not through the
// mesh.
type adminClient struct{ *trial }

// call sends one request with the trial's token and returns the response body.
func (a adminClient) call(ctx context.Context, pod *corev1.Pod, method, path string, body []byte) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, adminTimeout)
	defer cancel()
	forward := a.cluster.Forward(pod.Namespace, pod.Name, adminPort)
	defer forward.Close()
	r, err := http.NewRequestWithContext(ctx, method, "http://"+pod.Name+"/"+path, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	r.Header.Set("Authorization", "Bearer "+a.token)
	if body != nil {
		r.Header.Set("Content-Type", "application/merge-patch+json")
	}
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true, DialContext: forward.DialContext}}
	resp, err := client.Do(r)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(io.LimitReader(resp.Body, maxResponse))
	if err != nil {
		return nil, err
	}
	if resp.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("%s: %.300s", resp.Status, bytes.TrimSpace(text))
	}
	return text, nil
}

// configurer changes the configuration of running services.
type configurer struct {
	pods  *trialPods
	admin adminClient
}

// Configure implements [platform.Configurer].
func (c *configurer) Configure(ctx context.Context, id string, patch []byte) (undo []byte, err error) {
	defer func() {
		if err != nil {
			undo, err = nil, fmt.Errorf("change %s: %w", id, err)
		}
	}()
	pod, err := c.pods.find(id)
	if err != nil {
		return nil, err
	}
	before, err := c.admin.call(ctx, pod, http.MethodGet, "config", nil)
	if err != nil {
		return nil, err
	}
	if undo, err = platform.Reverse(patch, before); err != nil {
		return nil, err
	}
	_, err = c.admin.call(ctx, pod, http.MethodPatch, "config", patch)
	return undo, err
}
