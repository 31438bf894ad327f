package platform

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"time"
)

// ServiceAPI is the REST interface of one service that tare-agent plays, beside the mesh.
type ServiceAPI struct {
	Root    string // URL, without its last slash
	Token   string // of the run, "" for reading
	Timeout time.Duration
	// Dial connects to it. nil: directly.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)
}

const (
	// maxAnswer bounds an answer of the interface, bytes.
	maxAnswer = 1 << 20
	// maxRefusal is the max shown length of a refusal, bytes.
	maxRefusal = 2 << 10
)

// Call sends a request to a path and returns the body of the answer. body is a merge patch, or nil. Each request has
// its own connection. The error is of an answer other than 200 too.
func (a ServiceAPI) Call(ctx context.Context, method, path string, body []byte) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, a.Timeout)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, method, a.Root+path, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	if a.Token != "" {
		r.Header.Set("Authorization", "Bearer "+a.Token)
	}
	if body != nil {
		r.Header.Set("Content-Type", "application/merge-patch+json")
	}
	resp, answer, err := Send(r, &http.Transport{DialContext: a.Dial}, maxAnswer)
	if err != nil {
		return nil, err
	}
	if resp.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("%s: %s", resp.Status, bytes.TrimSpace(answer[:min(len(answer), maxRefusal)]))
	}
	return answer, nil
}

// Send sends a request on a connection of its own, and returns the answer with at most limit bytes of its body. A redirect
// is an answer too. over has the properties of the connection.
func Send(r *http.Request, over *http.Transport, limit int64) (*http.Response, []byte, error) {
	over.DisableKeepAlives = true
	client := http.Client{Transport: over, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	resp, err := client.Do(r)
	if err != nil {
		return nil, nil, err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, limit))
	return resp, body, err
}

// Stats returns the counts of the service.
func (a ServiceAPI) Stats(ctx context.Context) (AppStats, error) {
	text, err := a.Call(ctx, http.MethodGet, "/stats", nil)
	if err != nil {
		return AppStats{}, err
	}
	return parseStats(text)
}

// Configuration returns the configuration of the service, as JSON.
func (a ServiceAPI) Configuration(ctx context.Context) ([]byte, error) {
	return a.Call(ctx, http.MethodGet, "/config", nil)
}

// Configure applies a JSON merge patch (RFC 7396) to the configuration of the service. undo is the patch that reverts it.
func (a ServiceAPI) Configure(ctx context.Context, patch []byte) (undo []byte, err error) {
	before, err := a.Configuration(ctx)
	if err != nil {
		return nil, err
	}
	if undo, err = reverse(patch, before); err != nil {
		return nil, err
	}
	if _, err := a.Call(ctx, http.MethodPatch, "/config", patch); err != nil {
		return nil, err
	}
	return undo, nil
}

// reverse is the merge patch (RFC 7396) that reverts the effect of patch on a document. Fields
// that were absent are removed.
func reverse(patch, document []byte) ([]byte, error) {
	var changed, before map[string]any
	if err := json.Unmarshal(patch, &changed); err != nil {
		return nil, fmt.Errorf("read the change: %w", err)
	}
	if err := json.Unmarshal(document, &before); err != nil {
		return nil, fmt.Errorf("read its configuration: %w", err)
	}
	return json.Marshal(undoing(changed, before))
}

// undoing handles fields that are objects before and in the patch. A field that was absent becomes
// null.
func undoing(changed, before map[string]any) map[string]any {
	undo := map[string]any{}
	for field, value := range changed {
		was := before[field]
		inner, in := value.(map[string]any)
		old, object := was.(map[string]any)
		if in && object {
			was = undoing(inner, old)
		}
		undo[field] = was
	}
	return undo
}
