package cluster

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"syscall"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	utilnet "k8s.io/apimachinery/pkg/util/net"
)

// How often the cluster is asked again when it did not answer.
const (
	attemptTimeout = 10 * time.Second       // of one attempt
	firstPause     = 100 * time.Millisecond // doubled after each attempt
	longestPause   = 2 * time.Second
	retryFor       = time.Minute // where the caller's context has no deadline
)

// Retry carries out f until it succeeds, fails for good, or ctx ends. Tried again is what an API server that is
// away, starting or overloaded causes: connections refused or lost, time-outs, 429 and 5xx. f must be safe to
// repeat and use the context it is given, which bounds one attempt. op names the operation for the error
// ("read pods of shop"), which has a hint and says how long it was tried. Without a deadline in ctx it is a minute.
func (c *Cluster) Retry(ctx context.Context, op string, f func(context.Context) error) error {
	if c.DryRun() {
		return fmt.Errorf("%s: %w: nothing is asked in a dry run", op, errors.ErrUnsupported)
	}
	if _, ok := ctx.Deadline(); !ok {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, retryFor)
		defer cancel()
	}
	began := time.Now()
	pause := firstPause
	for {
		attempt, cancel := context.WithTimeout(ctx, attemptTimeout)
		err := f(attempt)
		cancel()
		if err == nil {
			return nil
		}
		if ctx.Err() == nil && IsTransient(err) && sleep(ctx, retryPause(err, pause)) == nil {
			pause = min(2*pause, longestPause)
			continue
		}
		if errors.Is(ctx.Err(), context.Canceled) {
			return fmt.Errorf("%s: %w", op, ctx.Err())
		}
		if IsTransient(err) {
			op += fmt.Sprintf(": tried for %s", roundly(time.Since(began)))
		}
		return c.explained(op, err)
	}
}

// retryPause is the pause the server asked for, or else ours.
func retryPause(err error, ours time.Duration) time.Duration {
	if seconds, ok := apierrors.SuggestsClientDelay(err); ok && seconds > 0 {
		return min(time.Duration(seconds)*time.Second, 5*longestPause)
	}
	return ours
}

// sleep waits for d or the end of ctx, whichever is first.
func sleep(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-t.C:
		return nil
	}
}

// IsTransient says that the same request may succeed later: it was the way to the server or the server that failed.
func IsTransient(err error) bool {
	var netErr net.Error
	switch {
	case err == nil:
		return false
	case isCertificate(err):
		return false
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF),
		errors.Is(err, syscall.ECONNREFUSED), errors.Is(err, syscall.ECONNRESET), errors.Is(err, syscall.EPIPE),
		errors.Is(err, syscall.EHOSTUNREACH), errors.Is(err, syscall.ENETUNREACH):
		return true
	case utilnet.IsProbableEOF(err), utilnet.IsHTTP2ConnectionLost(err):
		return true
	case apierrors.IsTooManyRequests(err), apierrors.IsServerTimeout(err), apierrors.IsTimeout(err),
		apierrors.IsInternalError(err), apierrors.IsServiceUnavailable(err):
		return true
	case errors.As(err, &netErr) && netErr.Timeout():
		return true
	}
	var status apierrors.APIStatus
	return errors.As(err, &status) && status.Status().Code >= 500
}

// roundly is a duration for people.
func roundly(d time.Duration) time.Duration {
	if d < time.Second {
		return d.Round(10 * time.Millisecond)
	}
	return d.Round(100 * time.Millisecond)
}
