package local

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"net/url"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/tare-mesh/tare/internal/base/routine"
	"github.com/tare-mesh/tare/internal/base/wait"
	"github.com/tare-mesh/tare/internal/metric"
	"github.com/tare-mesh/tare/internal/run/platform"
)

// starter implements [platform.Deployment.StopAndStart].
type starter struct {
	layout    *layout
	processes *processes
	faults    *taskFaults
	changer   *changer
}

const (
	// startProbeEvery is the time between two requests. With one each millisecond, of every part, an Envoy on two busy CPUs
	// never answers.
	startProbeEvery = time.Second / metric.StartProbeRate
	// startProbeTimeout bounds a request.
	startProbeTimeout = time.Second
	// startProbeLead is the time of requests before a stop.
	startProbeLead = 50 * time.Millisecond
	// maxStartProbes is the number of requests under way.
	maxStartProbes = 512
)

func (s *starter) StopAndStart(ctx context.Context) ([]platform.PodStart, error) {
	entry, _ := s.layout.spec.Topology.Service(s.layout.spec.Topology.EntryName())
	p := s.layout.pods[entry.Name][0]
	containers := []string{"app"}
	if s.layout.sidecars() {
		containers = append(containers, sidecarContainer)
	}
	done := platform.PodStart{Gone: map[string]time.Duration{}, First: map[string]time.Duration{}, Least: map[string]time.Duration{}}
	if entry.URL != "" {
		return nil, fmt.Errorf("stop and start %s: %w: it was started by its user", p.name, errors.ErrUnsupported)
	}
	tries, err := s.tries(ctx, p, len(entry.Calls) > 0)
	if err == nil {
		err = s.stop(ctx, p, containers, tries["through"], &done)
	}
	if err == nil {
		err = s.start(ctx, p, containers, tries, &done)
	}
	if err != nil {
		return nil, fmt.Errorf("stop and start %s: %w", p.name, err)
	}
	return []platform.PodStart{done}, nil
}

// stop ends the processes of a pod at once, as a cluster does.
func (s *starter) stop(ctx context.Context, p *pod, containers []string, through attempt, done *platform.PodStart) error {
	requests := send(ctx, through, startProbeEvery)
	defer requests.end()
	if err := wait.For(ctx, startProbeLead); err != nil {
		return err
	}
	began := time.Now()
	var mu sync.Mutex
	err := eachContainer(containers, func(container string) error {
		err := s.faults.End(ctx, p.name+"/"+container, stopGrace)
		mu.Lock()
		defer mu.Unlock()
		done.Gone[container] = time.Since(began)
		return err
	})
	ended := time.Now()
	for _, r := range requests.end() {
		if r.err != nil && r.sent.Before(ended) {
			done.Lost++
		}
	}
	return err
}

// start starts the processes of a pod at once, and waits until each part has answered.
func (s *starter) start(ctx context.Context, p *pod, containers []string, tries map[string]attempt, done *platform.PodStart) error {
	requests := map[string]*requests{}
	for part, try := range tries {
		requests[part] = send(ctx, try, startProbeEvery)
		defer requests[part].end()
	}
	err := eachContainer(containers, func(container string) error { return s.faults.Restart(ctx, p.name+"/"+container) })
	if err != nil {
		return err
	}
	began := map[string]time.Time{}
	var first time.Time // of the processes
	for _, container := range containers {
		_, process, err := s.processes.alive(p.name + "/" + container)
		if err == nil && process == nil {
			err = fmt.Errorf("%s/%s has ended", p.name, container)
		}
		if err != nil {
			return err
		}
		if began[container] = process.began; first.IsZero() || process.began.Before(first) {
			first = process.began
		}
	}
	began["through"], began["outbound"] = first, began["app"]
	for part, r := range requests {
		at, err := r.answered(ctx)
		if err != nil {
			return fmt.Errorf("%s: %w", part, err)
		}
		done.First[part], done.Least[part] = at.Sub(began[part]), max(0, r.refused(at).Sub(began[part]))
	}
	return nil
}

// attempt is a request, which succeeds without an error.
type attempt func(context.Context) error

// tries are the requests that show the parts of a pod. calls: its application calls other services.
func (s *starter) tries(ctx context.Context, p *pod, calls bool) (map[string]attempt, error) {
	entry, err := url.Parse(s.layout.entry[0])
	if err != nil {
		return nil, err
	}
	at := func(scheme string, to netip.AddrPort) string {
		u := url.URL{Scheme: scheme, Host: to.String(), Path: entry.Path, RawQuery: entry.RawQuery}
		return u.String()
	}
	host := s.layout.spec.Host(s.layout.spec.Entry())
	all := map[string]attempt{
		"app":     httpGet(at("http", p.app), host, nil, true),
		"through": httpGet(entry.String(), host, nil, true),
	}
	if calls {
		all["outbound"] = httpGet(at("http", p.app), host, nil, true)
	}
	switch {
	case !s.layout.sidecars():
	case s.layout.spec.Mesh.Provides.MTLS:
		config, err := s.changer.client(ctx, p, nil)
		if err != nil {
			return nil, err
		}
		all[sidecarContainer] = httpGet(at("https", p.inbound), host, config, false)
	default:
		all[sidecarContainer] = httpGet(at("http", p.inbound), host, nil, false)
	}
	return all, nil
}

// httpGet is a request on a connection of its own, which succeeds with any answer or, good, with 2xx only.
func httpGet(to, host string, secure *tls.Config, good bool) attempt {
	return func(ctx context.Context) error {
		ctx, cancel := context.WithTimeout(ctx, startProbeTimeout)
		defer cancel()
		r, err := http.NewRequestWithContext(ctx, http.MethodGet, to, nil)
		if err != nil {
			return err
		}
		r.Host = host
		resp, _, err := platform.Send(r, &http.Transport{DisableKeepAlives: true, TLSClientConfig: secure}, maxAdmin)
		if err == nil && good && resp.StatusCode/100 != 2 {
			err = errors.New(resp.Status)
		}
		return err
	}
}

// requests are sent at a fixed rate, each when it is due.
type requests struct {
	cancel context.CancelFunc
	over   chan struct{}
	first  chan struct{} // closed after the first success

	mu  sync.Mutex
	all []outcome
	at  time.Time // of the first success
}

type outcome struct {
	sent time.Time
	err  error
}

// send sends requests at a fixed rate until end.
func send(ctx context.Context, try attempt, every time.Duration) *requests {
	until, cancel := context.WithCancel(ctx)
	r := &requests{cancel: cancel, over: make(chan struct{}), first: make(chan struct{})}
	go routine.Guarded(func() {
		defer close(r.over)
		wait.Every(until, every, maxStartProbes, func() { r.one(ctx, try) })
	})()
	return r
}

func (r *requests) one(ctx context.Context, try attempt) {
	o := outcome{sent: time.Now()}
	o.err = try(ctx)
	now := time.Now()
	r.mu.Lock()
	defer r.mu.Unlock()
	r.all = append(r.all, o)
	if o.err == nil && r.at.IsZero() {
		r.at = now
		close(r.first)
	}
}

// end waits for the requests under way and returns all. It can be called again.
func (r *requests) end() []outcome {
	r.cancel()
	<-r.over
	return r.all
}

// answered waits for the first success and returns when it came.
func (r *requests) answered(ctx context.Context) (time.Time, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, startTimeout, fmt.Errorf("no answer within %v", startTimeout))
	defer cancel()
	select {
	case <-r.first:
		r.mu.Lock()
		defer r.mu.Unlock()
		return r.at, nil
	case <-ctx.Done():
		return time.Time{}, context.Cause(ctx)
	}
}

// refused returns when the last request before an instant was sent that had failed by then, zero without one.
func (r *requests) refused(before time.Time) (last time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, o := range r.all {
		if o.err != nil && o.sent.Before(before) && o.sent.After(last) {
			last = o.sent
		}
	}
	return last
}

// eachContainer calls do for all containers at once.
func eachContainer(containers []string, do func(container string) error) error {
	var group errgroup.Group
	for _, container := range containers {
		group.Go(routine.Guarded(func() error { return do(container) }))
	}
	return group.Wait()
}
