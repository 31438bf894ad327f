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

	"github.com/tare-mesh/tare/internal/base/wait"
)

// Times of requests to the API server.
const (
	attemptTimeout = 10 * time.Second       // of one attempt
	firstPause     = 100 * time.Millisecond // doubled after each attempt
	longestPause   = 2 * time.Second
	retryFor       = time.Minute // if the caller's context has no deadline
)

// requests repeats requests that the API server did not answer, and explains permanent failures.
type requests struct {
	context string // of the kubeconfig, for hints
	server  string // URL, for hints
	dryRun  bool   // send nothing
}

// retry implements [Cluster.Retry].
func (r requests) retry(ctx context.Context, op string, f func(context.Context) error) error {
	if err := r.refuseDryRun(op); err != nil {
		return err
	}
	ctx, cancel := WithDefaultTimeout(ctx, retryFor)
	defer cancel()
	began := time.Now()
	pause := firstPause
	for {
		attempt, cancel := context.WithTimeout(ctx, attemptTimeout)
		err := f(attempt)
		cancel()
		if err == nil {
			return nil
		}
		if ctx.Err() == nil && IsTransient(err) && wait.For(ctx, retryPause(err, pause)) == nil {
			pause = min(2*pause, longestPause)
			continue
		}
		if errors.Is(ctx.Err(), context.Canceled) {
			return fmt.Errorf("%s: %w", op, ctx.Err())
		}
		if IsTransient(err) {
			op += fmt.Sprintf(": tried for %s", rounded(time.Since(began)))
		}
		return r.explained(op, err)
	}
}

// once sends a request a single time. It serves meters, which have their own clock.
func (r requests) once(ctx context.Context, op string, f func(context.Context) error) error {
	if err := r.refuseDryRun(op); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, attemptTimeout)
	defer cancel()
	return r.explained(op, f(ctx))
}

func (r requests) refuseDryRun(op string) error {
	if !r.dryRun {
		return nil
	}
	return fmt.Errorf("%s: %w: a dry run sends no requests", op, errors.ErrUnsupported)
}

// explained adds the operation and a hint to an error of client-go.
func (r requests) explained(op string, err error) error {
	if err == nil {
		return nil
	}
	var known *Error
	if errors.As(err, &known) {
		return fmt.Errorf("%s: %w", op, err)
	}
	return failedTo(op, err, r.hint(err))
}

// retryPause is the pause that the server requested, or else ours.
func retryPause(err error, ours time.Duration) time.Duration {
	if seconds, ok := apierrors.SuggestsClientDelay(err); ok && seconds > 0 {
		return min(time.Duration(seconds)*time.Second, 5*longestPause)
	}
	return ours
}

// WithDefaultTimeout applies d to a context without a deadline.
func WithDefaultTimeout(ctx context.Context, d time.Duration) (context.Context, context.CancelFunc) {
	if _, ok := ctx.Deadline(); ok {
		return context.WithCancel(ctx)
	}
	return context.WithTimeout(ctx, d)
}

// IsTransient reports whether the same request may succeed later: the network or the server failed.
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

// rounded is a duration for messages.
func rounded(d time.Duration) time.Duration {
	if d < time.Second {
		return d.Round(10 * time.Millisecond)
	}
	return d.Round(100 * time.Millisecond)
}
