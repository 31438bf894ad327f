package cluster

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	utilnet "k8s.io/apimachinery/pkg/util/net"

	"github.com/tare-mesh/tare/internal/base/hint"
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
	if _, ok := errors.AsType[*Error](err); ok {
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

func rounded(d time.Duration) time.Duration {
	if d < time.Second {
		return d.Round(10 * time.Millisecond)
	}
	return d.Round(100 * time.Millisecond)
}

// Error is a failed operation on a cluster, with a hint where one is known.
type Error struct {
	hint.Hinted
	Op string // "apply deployment shop/cart"
}

func (e *Error) Error() string { return e.Op + ": " + message(e.Err) }

func failedTo(op string, err error, text string) error {
	return &Error{Hinted: hint.Hinted{Err: err, Text: text}, Op: op}
}

// message shortens a library's error: a failed request repeats its method and URL, which Op names already.
func message(err error) string {
	if u, ok := errors.AsType[*url.Error](err); ok {
		return u.Err.Error()
	}
	return err.Error()
}

// HintPermissions is the hint of errors that a missing RBAC permission causes.
const HintPermissions = "`tare cluster rbac` prints the RBAC permissions that tare needs, for a cluster administrator to grant"

// hint is the action that cures err, empty if none is known.
func (r requests) hint(err error) string {
	name := ""
	if r.context != "" {
		name = " --context " + r.context
	}
	for _, k := range []struct {
		is   bool
		hint string
	}{
		{apierrors.IsUnauthorized(err), "the credentials have expired or belong to another cluster: log in again, and check them with `kubectl" + name + " auth whoami`"},
		{isPlugin(err), "log in again; if a run was interrupted, then `tare cluster cleanup" + name + "`"},
		{isRefused(err), hints[kindOf("", err.Error())]},
		{apierrors.IsForbidden(err), HintPermissions},
		{meta.IsNoMatchError(err), "the cluster has no such kind: install its CustomResourceDefinition first"},
		{isCertificate(err), "the kubeconfig's certificate authority did not sign the server's certificate: it may belong to an earlier cluster of that name"},
		{isUnreachable(err), "does the cluster run, and can " + r.server + " be reached from here? try `kubectl" + name + " version`"},
	} {
		if k.is {
			return k.hint
		}
	}
	return ""
}

// isRefused reports whether an admission plugin refused an object.
func isRefused(err error) bool {
	return apierrors.IsForbidden(err) && slices.Contains(refusals, kindOf("", err.Error()))
}

// IsForbidden reports whether an RBAC permission is missing.
func IsForbidden(err error) bool { return apierrors.IsForbidden(err) && !isRefused(err) }

func isCertificate(err error) bool {
	var unknown x509.UnknownAuthorityError
	var host x509.HostnameError
	return errors.As(err, &unknown) || errors.As(err, &host)
}

func isUnreachable(err error) bool {
	var op *net.OpError
	var dns *net.DNSError
	return errors.As(err, &op) || errors.As(err, &dns) || errors.Is(err, context.DeadlineExceeded)
}

// Pauses between two calls of a failing credential plugin.
const (
	firstPluginPause   = time.Second // doubled after each failure
	longestPluginPause = 30 * time.Second
)

// credentials returns the failure of a credential plugin again for a time. client-go calls the plugin for each request, and
// each call writes to standard error, or opens a browser.
type credentials struct {
	next http.RoundTripper
	now  func() time.Time

	mu     sync.Mutex
	failed error // the last failure, nil after a success
	until  time.Time
	pause  time.Duration
}

func (c *credentials) RoundTrip(r *http.Request) (*http.Response, error) {
	c.mu.Lock()
	failed := c.failed
	if failed != nil && c.now().After(c.until) {
		failed = nil
	}
	c.mu.Unlock()
	if failed != nil {
		return nil, failed
	}
	response, err := c.next.RoundTrip(r)
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case isPlugin(err):
		c.pause = min(max(firstPluginPause, 2*c.pause), longestPluginPause)
		c.failed, c.until = err, c.now().Add(c.pause)
	case err == nil:
		c.failed, c.pause = nil, 0
	}
	return response, err
}

// WrappedRoundTripper implements k8s.io/apimachinery's RoundTripperWrapper, by which client-go closes idle connections.
func (c *credentials) WrappedRoundTripper() http.RoundTripper { return c.next }

// isPlugin recognises the failure of a credential plugin, which client-go reports without a type.
func isPlugin(err error) bool {
	return err != nil && strings.Contains(err.Error(), "getting credentials: ")
}
