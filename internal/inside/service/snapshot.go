package service

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"slices"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/tare-mesh/tare/internal/base/hint"
	"github.com/tare-mesh/tare/internal/experiment/app"
	"github.com/tare-mesh/tare/internal/load"
)

// snapshot is one configuration and everything derived from it. It is immutable.
// A request uses the snapshot current at its start until its end, so it never
// sees a mixture of two configurations.
type snapshot struct {
	instance app.Instance
	document []byte // as returned by GET /config

	status, failedCall int
	errorStatus        int
	errorRatio         float64
	size               int64 // of every response, negative if drawn for each
	length             []string
	version            []string // of the configuration, nil: not shown
	limit              *limiter // nil: none
	steps              []step
	// work is set if requests do work before the response is written.
	work bool
	// plain is set if all responses are equal and need no work.
	plain bool
}

// versionHeader is [load.VersionHeader] as net/http writes it.
var versionHeader = http.CanonicalHeaderKey(load.VersionHeader)

// memoryError reports a configuration that needs more memory than the limit.
func memoryError(needed, limit app.Size) error {
	return hint.New("start the service with a larger --max-memory", "memory: %v is more than this service may hold, %v", needed, limit)
}

// newSnapshot prepares a configuration for requests.
func (s *Service) newSnapshot(i app.Instance) (*snapshot, error) {
	if err := i.Check(); err != nil {
		return nil, err
	}
	document, err := json.MarshalIndent(i, "", "  ")
	if err != nil {
		return nil, fmt.Errorf("service %s: %w", i.Name, err)
	}
	n := &snapshot{
		instance: i, document: append(document, '\n'),
		status: i.Status, failedCall: i.FailedCallStatus, size: -1,
	}
	n.status = cmp.Or(n.status, http.StatusOK)
	n.failedCall = cmp.Or(n.failedCall, http.StatusBadGateway)
	if size, ok := i.ResponseSize.Fixed(); ok || i.ResponseSize.IsZero() {
		n.size, n.length = size, []string{strconv.FormatInt(size, 10)}
	}
	if i.Errors != nil {
		n.errorRatio, n.errorStatus = i.Errors.Ratio, i.Errors.Status
		n.errorStatus = cmp.Or(n.errorStatus, http.StatusInternalServerError)
	}
	if i.Version > 0 || i.Replica {
		n.version = []string{strconv.Itoa(i.Version)}
	}
	if i.Replica {
		host, err := os.Hostname()
		if err != nil {
			return nil, fmt.Errorf("service %s: replica: %w", i.Name, err)
		}
		n.version[0] += " " + host
	}
	if i.RateLimit > 0 {
		n.limit = newLimiter(i.RateLimit)
	}
	if n.steps, err = s.newSteps(i.Calls); err != nil {
		return nil, fmt.Errorf("service %s: %w", i.Name, err)
	}
	n.work = !i.Time.IsZero() || !i.Delay.IsZero() || i.CPU > 0 || n.errorRatio > 0 || n.limit != nil || len(n.steps) > 0 || len(i.Redirects) > 0
	n.plain = !n.work && n.size >= 0 && n.size <= chunk && hasBody(n.status)
	return n, nil
}

// Config returns the configuration as JSON.
func (s *Service) Config() []byte { return s.now.Load().document }

// Change replaces the configuration with edit's result. Requests in flight keep the old one.
func (s *Service) Change(edit func(app.Instance) (app.Instance, error)) error {
	s.changing.Lock()
	defer s.changing.Unlock()
	old := s.now.Load()
	i, err := edit(old.instance)
	if err != nil {
		return err
	}
	if i.Name != old.instance.Name || i.Protocol != old.instance.Protocol {
		return errFixed
	}
	return s.install(i)
}

var errFixed = errors.New("the name and the protocol of a service stay as they were at its start")

// install makes i the configuration. Memory is mapped before and released after
// the change, so a failed change has no effect.
func (s *Service) install(i app.Instance) error {
	if i.Memory > s.maxMemory {
		return memoryError(i.Memory, s.maxMemory)
	}
	n, err := s.newSnapshot(i)
	if err != nil {
		return err
	}
	if err := s.held.hold(int64(i.Memory)); err != nil {
		return fmt.Errorf("hold %v: %w", i.Memory, err)
	}
	if old := s.now.Swap(n); old != nil && !slices.Equal(urls(old.instance.Calls), urls(i.Calls)) {
		s.clients.closeIdle()
	}
	return nil
}

// limiter limits the requests per second. The burst is the requests of 0.1 s,
// and at least one. It is the generic cell rate algorithm in its
// virtual-scheduling form (ITU-T I.371, annex A).
type limiter struct {
	start     time.Time
	next      atomic.Int64 // theoretical arrival time, ns since start
	interval  int64        // ns per request
	tolerance int64        // ns
}

const limiterBurst = 100 * time.Millisecond

func newLimiter(rate float64) *limiter {
	l := &limiter{start: time.Now(), interval: max(1, int64(float64(time.Second)/rate))}
	l.tolerance = max(0, int64(limiterBurst)-l.interval)
	return l
}

func (l *limiter) allow() bool {
	now := int64(time.Since(l.start))
	for {
		next := l.next.Load()
		if next-now > l.tolerance {
			return false
		}
		if l.next.CompareAndSwap(next, max(next, now)+l.interval) {
			return true
		}
	}
}

// hasBody reports whether responses with a status have a body (RFC 9110, 6.4.1).
func hasBody(status int) bool {
	return status != http.StatusNoContent && status != http.StatusNotModified
}
