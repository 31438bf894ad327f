package local

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"

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
	api := rootURL(v.pod.api) + "config"
	now, err := c.rest(ctx, http.MethodGet, api, nil)
	if err != nil {
		return fail(err)
	}
	if undo, err = platform.Reverse(patch, now); err != nil {
		return fail(err)
	}
	if _, err := c.rest(ctx, http.MethodPatch, api, patch); err != nil {
		return fail(err)
	}
	return undo, nil
}

// rest sends a request to a service's REST interface, with the run's token.
func (c *configurer) rest(ctx context.Context, method, url string, body []byte) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, adminTimeout)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, method, url, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	r.Header.Set("Authorization", "Bearer "+c.workspace.token)
	if body != nil {
		r.Header.Set("Content-Type", "application/merge-patch+json")
	}
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	resp, err := client.Do(r)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	answer, err := io.ReadAll(io.LimitReader(resp.Body, maxAdmin))
	if err != nil {
		return nil, err
	}
	if resp.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("%s: %s", resp.Status, strings.TrimSpace(string(answer[:min(len(answer), maxRefusal)])))
	}
	return answer, nil
}
