package platform

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strconv"
	"time"

	"github.com/tare-mesh/tare/internal/base/clock"
	"github.com/tare-mesh/tare/internal/base/hint"
	"github.com/tare-mesh/tare/internal/base/httpserver"
	"github.com/tare-mesh/tare/internal/base/wait"
	"github.com/tare-mesh/tare/internal/experiment/mesh"
	"github.com/tare-mesh/tare/internal/inside/simulated"
)

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
