package service

import (
	"context"
	"errors"
	"math/rand/v2"
	"net/http"
	"time"
)

// outcome is the result of a request before its response is written: the status
// and the error. A nil error means the configured response.
type outcome struct {
	status int
	err    error
}

var (
	errLimited  = errors.New("more requests than the rate limit allows")
	errInjected = errors.New("an error that was asked for")
)

// do does the work of a request. in contains the data that calls pass on.
func (s *Service) do(ctx context.Context, n *snapshot, in incoming) outcome {
	o := s.steps(ctx, n, in)
	if o.err != nil {
		s.count.partial.Add(1)
	}
	return o
}

// steps performs the wait, CPU burn, injected errors and calls of a request.
func (s *Service) steps(ctx context.Context, n *snapshot, in incoming) outcome {
	if n.limit != nil && !n.limit.allow() {
		s.count.limited.Add(1)
		return outcome{http.StatusTooManyRequests, errLimited}
	}
	if wait := n.instance.Time.Draw() + n.instance.Delay.Draw(); wait > 0 {
		if err := sleep(ctx, wait); err != nil {
			return outcome{statusGone, err}
		}
	}
	if n.instance.CPU > 0 {
		burn(time.Duration(n.instance.CPU))
	}
	if n.errorRatio > 0 && rand.Float64() < n.errorRatio {
		s.count.injected.Add(1)
		return outcome{n.errorStatus, errInjected}
	}
	if err := s.callAll(ctx, n.steps, in); err != nil {
		s.count.failedCalls.Add(1)
		return outcome{n.failedCall, err}
	}
	return outcome{status: n.status}
}

// statusGone is the status that proxies log if the client is gone, and is never
// sent.
const statusGone = 499
