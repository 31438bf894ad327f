package platform

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strconv"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/tare-mesh/tare/internal/base/clock"
	"github.com/tare-mesh/tare/internal/base/hint"
	"github.com/tare-mesh/tare/internal/base/httpserver"
	"github.com/tare-mesh/tare/internal/base/routine"
	"github.com/tare-mesh/tare/internal/base/wait"
	"github.com/tare-mesh/tare/internal/experiment/app"
	"github.com/tare-mesh/tare/internal/experiment/mesh"
	"github.com/tare-mesh/tare/internal/inside/simulated"
	"github.com/tare-mesh/tare/internal/result/balance"
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

// AppStats are the counts of an application since its start, as its REST interface returns them.
type AppStats struct {
	Requests int64  `json:"requests"`
	Messages int64  `json:"messages"` // over WebSocket, whose requests are connections
	Failed   int64  `json:"failed"`   // answered with an error
	Partial  int64  `json:"partial"`  // ended before all of their calls
	ETag     string `json:"etag"`     // of its configuration
	// Callees are its requests to other services, by their names.
	Callees map[string]struct {
		Sent    int64 `json:"sent"`
		Failed  int64 `json:"failed"`
		Retries int64 `json:"retries"`
	} `json:"callees"`
}

// parseStats reads the counts of an application, which are not negative.
func parseStats(text []byte) (stats AppStats, err error) {
	if err := json.Unmarshal(text, &stats); err != nil {
		return AppStats{}, err
	}
	counts := []int64{stats.Requests, stats.Messages, stats.Failed, stats.Partial}
	for _, c := range stats.Callees {
		counts = append(counts, c.Sent, c.Failed, c.Retries)
	}
	if least := slices.Min(counts); least < 0 {
		return AppStats{}, fmt.Errorf("a count is %d", least)
	}
	return stats, nil
}

// ReadEach makes readings of counters, some at once, and returns them in order. The error is for the end of ctx.
func ReadEach[T any](ctx context.Context, atOnce int, reads []func(context.Context) []T) ([]T, error) {
	all := make([][]T, len(reads))
	var reading errgroup.Group
	reading.SetLimit(atOnce)
	for i, read := range reads {
		reading.Go(routine.Guarded(func() error { all[i] = read(ctx); return nil }))
	}
	_ = reading.Wait()
	if ctx.Err() != nil {
		return nil, fmt.Errorf("read the counters of requests: %w", context.Cause(ctx))
	}
	return slices.Concat(all...), nil
}

// Counts reads the counts of one instance of a service. from has its task. They are unknown if from is, or if the stats
// cannot be read.
func (a ServiceAPI) Counts(ctx context.Context, from balance.Count, of app.Service, protocol string) []balance.Count {
	var s AppStats
	if from.Unknown == "" {
		var err error
		if s, err = a.Stats(ctx); err != nil {
			from.Unknown = err.Error()
		}
	}
	return s.counts(from, of, protocol)
}

func (s AppStats) counts(from balance.Count, of app.Service, protocol string) []balance.Count {
	from.Config = s.ETag
	count := func(place balance.Place, tally balance.Tally) balance.Count {
		c := from
		c.Place = place
		if c.Unknown == "" {
			c.Tally = tally
		}
		return c
	}
	all := []balance.Count{count(balance.Place{Service: of.Name, Point: balance.Served, Unit: UnitOf(protocol)},
		balance.Tally{Count: s.Requests, Failed: s.Failed, Partial: s.Partial})}
	if protocol == app.WebSocket {
		all = append(all, count(balance.Place{Service: of.Name, Point: balance.Served, Unit: balance.Requests}, balance.Tally{Count: s.Messages, Failed: s.Failed, Partial: s.Partial}))
	}
	done := map[string]bool{}
	for _, call := range of.Calls {
		if call.Service == "" || done[call.Service] {
			continue
		}
		done[call.Service] = true
		n := s.Callees[call.Service]
		all = append(all, count(balance.Place{Service: of.Name, Point: balance.Sent, To: call.Service, Unit: balance.Requests},
			balance.Tally{Count: n.Sent, Failed: n.Failed, Retries: n.Retries}))
	}
	return all
}

// UnitOf is the unit in which a service counts its requests.
func UnitOf(protocol string) balance.Unit {
	if protocol == app.TCP || protocol == app.WebSocket {
		return balance.Connections
	}
	return balance.Requests
}

// SimulatedProxies is the interface of the process that plays the simulated proxies of a trial: `tare-agent proxies`.
type SimulatedProxies struct {
	URL, Token string
	Log        string // the place of its log, for messages
	// Dial connects to it. nil: directly.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)
}

// SimulatedArgs are the arguments of the process.
func SimulatedArgs(listen, tokenFile string, count int, to mesh.Simulated) []string {
	args := []string{"proxies", "--listen", listen, "--token-file", tokenFile, "--control", to.Proxies, "--count", strconv.Itoa(count)}
	if to.Node != "" {
		args = append(args, "--node", to.Node)
	}
	if to.Metadata != "" {
		args = append(args, "--metadata", to.Metadata)
	}
	return args
}

const (
	simulatePause = 20 * time.Millisecond
	// maxReceived is the maximum size of an answer, in bytes.
	maxReceived = 1 << 30
)

// Await waits until each of the simulated proxies has a configuration with the services, for [mesh.SimulatedLimit] at most. lost
// returns the reason why none can come any more, or nil. report receives the progress after some seconds, and nil discards it.
func (s SimulatedProxies) Await(ctx context.Context, count, services int, lost func() error, report func(string)) error {
	progress := NewDelayedReport(report)
	defer progress.Close()
	over := s.transport()
	defer over.CloseIdleConnections()
	err := wait.Within(ctx, mesh.SimulatedLimit(count), simulatePause, func(ctx context.Context) error {
		if err := lost(); err != nil {
			return wait.Stop(err)
		}
		var r simulated.Report
		switch err := s.get(ctx, over, "/proxies", &r); {
		case err != nil:
			return err
		case r.Synced < count:
			progress.Add(fmt.Sprintf("%d of %d simulated proxies have a configuration", r.Synced, count))
			return fmt.Errorf("%d of %d simulated proxies have a configuration: %s", r.Synced, count, r.LastError)
		case r.Clusters < services:
			return fmt.Errorf("a simulated proxy has %d services: %s", r.Clusters, r.LastError)
		}
		return nil
	})
	if err != nil {
		return hint.Wrap(fmt.Errorf("start the simulated proxies: %w", err), "the control plane limits new streams (for istiod, raise PILOT_MAX_REQUESTS_PER_SECOND in its environment) or refuses them; its log and "+s.Log+" have details")
	}
	return nil
}

// Received reads what they have received, and the arrivals since the last call.
func (s SimulatedProxies) Received(ctx context.Context) (*Received, error) {
	over := s.transport()
	defer over.CloseIdleConnections()
	var r Received
	if err := errors.Join(s.get(ctx, over, "/proxies", &r.Report), s.get(ctx, over, "/arrivals", &r.Arrivals)); err != nil {
		return nil, fmt.Errorf("read the simulated proxies: %w", err)
	}
	return &r, nil
}

// Clock returns how far their clock is ahead of tare's, and the uncertainty.
func (s SimulatedProxies) Clock(ctx context.Context) (ahead, unsure time.Duration, err error) {
	over := s.transport()
	defer over.CloseIdleConnections()
	return clock.Measure(time.Now, func() (stamps clock.Stamps, err error) { return stamps, s.get(ctx, over, "/clock", &stamps) })
}

func (s SimulatedProxies) transport() *http.Transport { return &http.Transport{DialContext: s.Dial} }

func (s SimulatedProxies) get(ctx context.Context, over *http.Transport, path string, into any) error {
	return httpserver.Call(ctx, over, s.Token, http.MethodGet, s.URL+path, nil, maxReceived, into)
}
