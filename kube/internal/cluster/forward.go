package cluster

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/portforward"
	"k8s.io/client-go/transport/spdy"
	"k8s.io/streaming/pkg/httpstream"

	"github.com/tare-mesh/tare/internal/base/routine"
	"github.com/tare-mesh/tare/internal/base/wait"
)

// dialWithin bounds opening a connection if the caller's context has no deadline.
const dialWithin = 30 * time.Second

// Forward connects to one port of a pod through the API server, as kubectl port-forward does. Connections end at the
// loopback address of the pod's network namespace, so they bypass any mesh. Each has its own connection to the API
// server, so that the failure of one does not affect the others.
type Forward struct {
	requests       requests
	typed          kubernetes.Interface
	config         *rest.Config
	namespace, pod string
	port           int

	mu     sync.Mutex
	closed bool
	open   map[*tunnel]bool
}

// Forward prepares connections to a port of a pod, without opening one.
func (c *Cluster) Forward(namespace, pod string, port int) *Forward {
	return &Forward{requests: c.requests, typed: c.typed, config: c.config, namespace: namespace, pod: pod, port: port, open: map[*tunnel]bool{}}
}

func (f *Forward) String() string {
	return fmt.Sprintf("port %d of pod %s/%s", f.port, f.namespace, f.pod)
}

// DialContext opens a connection. It fits [http.Transport], and ignores network and address. While the API server or the
// pod's container is down, it retries until ctx ends (30 s without a deadline). A broken connection is not reopened. If
// nothing listens on the port, Read returns an error that wraps ECONNREFUSED.
func (f *Forward) DialContext(ctx context.Context, _, _ string) (net.Conn, error) {
	t, err := f.tunnel(ctx)
	if err != nil {
		return nil, err
	}
	near, far := net.Pipe()
	go routine.Guarded(func() {
		defer far.Close()
		_, _ = io.Copy(far, t) // tunnelConn.Read returns its error
	})()
	go routine.Guarded(func() {
		defer t.Close()
		_, _ = io.Copy(t, far)
	})()
	return &tunnelConn{near, t}, nil
}

// tunnel opens a connection, with the retries of DialContext.
func (f *Forward) tunnel(ctx context.Context) (*tunnel, error) {
	op := "connect to " + f.String()
	if err := f.requests.refuseDryRun(op); err != nil {
		return nil, err
	}
	ctx, cancel := WithDefaultTimeout(ctx, dialWithin)
	defer cancel()
	for pause := firstPause; ; pause = min(2*pause, longestPause) {
		t, err := f.attempt(ctx)
		if err == nil {
			return t, nil
		}
		if errors.Is(err, net.ErrClosed) || isFinal(err) || wait.For(ctx, pause) != nil {
			return nil, f.requests.explained(op, err)
		}
	}
}

// isFinal reports whether dialling again would fail the same way. The libraries lose the types of other errors.
func isFinal(err error) bool {
	return apierrors.IsForbidden(err) || apierrors.IsUnauthorized(err) || apierrors.IsNotFound(err) || isCertificate(err)
}

// attempt opens one connection. The libraries take no context, so a connection that opens too late is closed here.
func (f *Forward) attempt(ctx context.Context) (*tunnel, error) {
	ctx, cancel := context.WithTimeout(ctx, attemptTimeout)
	defer cancel()
	type result struct {
		*tunnel
		error
	}
	done := make(chan result)
	go routine.Guarded(func() {
		t, err := f.dial()
		select {
		case done <- result{t, err}:
		case <-ctx.Done():
			if t != nil {
				t.Close()
			}
		}
	})()
	select {
	case r := <-done:
		return r.tunnel, r.error
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func (f *Forward) dial() (*tunnel, error) {
	dialer, err := f.dialer()
	if err != nil {
		return nil, err
	}
	conn, _, err := dialer.Dial(portforward.PortForwardProtocolV1Name)
	if err != nil {
		return nil, err
	}
	t, err := newTunnel(conn, f.port)
	if err != nil {
		conn.Close()
		return nil, err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.closed {
		conn.Close()
		return nil, net.ErrClosed
	}
	f.open[t] = true
	t.forget = func() {
		f.mu.Lock()
		defer f.mu.Unlock()
		delete(f.open, t)
	}
	return t, nil
}

// dialer uses SPDY inside a WebSocket, which passes proxies, and plain SPDY for servers without support for it.
func (f *Forward) dialer() (httpstream.Dialer, error) {
	url := f.typed.CoreV1().RESTClient().Post().Resource("pods").
		Namespace(f.namespace).Name(f.pod).SubResource("portforward").URL()
	transport, upgrader, err := spdy.RoundTripperFor(f.config)
	if err != nil {
		return nil, err
	}
	plain := spdy.NewDialerForStreaming(upgrader, &http.Client{Transport: transport}, http.MethodPost, url)
	socket, err := portforward.NewSPDYOverWebsocketDialerForStreaming(url, f.config)
	if err != nil {
		return nil, err
	}
	return portforward.NewFallbackDialerForStreaming(socket, plain, func(err error) bool {
		return httpstream.IsUpgradeFailure(err) || httpstream.IsHTTPSProxyError(err)
	}), nil
}

// Close ends every connection.
func (f *Forward) Close() error {
	f.mu.Lock()
	f.closed = true
	open := slices.Collect(maps.Keys(f.open)) // each forgets itself
	f.mu.Unlock()
	for _, t := range open {
		t.Close()
	}
	return nil
}

// tunnel is one forwarded connection: a data stream, and an error stream on which the kubelet reports failures.
type tunnel struct {
	conn   httpstream.Connection
	data   httpstream.Stream
	failed chan struct{} // closed once err is settled
	err    error
	forget func()
	once   sync.Once
}

func newTunnel(conn httpstream.Connection, port int) (*tunnel, error) {
	headers := http.Header{}
	headers.Set(corev1.PortHeader, strconv.Itoa(port))
	headers.Set(corev1.PortForwardRequestIDHeader, "0")
	headers.Set(corev1.StreamType, corev1.StreamTypeError)
	problems, err := conn.CreateStream(headers)
	if err != nil {
		return nil, err
	}
	if err := problems.Close(); err != nil { // tare writes nothing to it
		return nil, err
	}
	headers.Set(corev1.StreamType, corev1.StreamTypeData)
	data, err := conn.CreateStream(headers)
	if err != nil {
		return nil, err
	}
	t := &tunnel{conn: conn, data: data, failed: make(chan struct{}), forget: func() {}}
	go routine.Guarded(func() {
		defer close(t.failed)
		text, err := io.ReadAll(io.LimitReader(problems, maxProblem))
		if len(text) > 0 {
			t.err = remoteError(string(text))
		} else if err != nil {
			t.err = fmt.Errorf("%w: %w", io.ErrUnexpectedEOF, err)
		}
	})()
	return t, nil
}

// maxProblem bounds the kubelet's error text, in bytes.
const maxProblem = 64 << 10

func remoteError(text string) error {
	text = strings.TrimSpace(text)
	if strings.Contains(text, "connection refused") {
		return fmt.Errorf("%w: %s", syscall.ECONNREFUSED, text)
	}
	return errors.New(text)
}

// Read reads the data from the pod. The kubelet's error, if any, replaces io.EOF.
func (t *tunnel) Read(p []byte) (int, error) {
	n, err := t.data.Read(p)
	if err == nil || n > 0 {
		return n, nil
	}
	if problem := t.problem(); problem != nil {
		return 0, problem
	}
	return 0, err
}

func (t *tunnel) Write(p []byte) (int, error) { return t.data.Write(p) }

func (t *tunnel) Close() error {
	t.once.Do(func() {
		t.forget()
		_ = t.data.Reset()
		_ = t.conn.Close()
	})
	return nil
}

// tunnelConn is a tunnel with deadlines. Streams have none, so a pipe is between.
type tunnelConn struct {
	net.Conn
	tunnel *tunnel
}

func (c *tunnelConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	if errors.Is(err, io.EOF) {
		if problem := c.tunnel.problem(); problem != nil {
			return n, problem
		}
	}
	return n, err
}

// problemWithin is how long to wait for the kubelet's error after the end of the data.
const problemWithin = time.Second

func (t *tunnel) problem() error {
	late := time.NewTimer(problemWithin)
	defer late.Stop()
	select {
	case <-t.failed:
		return t.err
	case <-late.C:
		return nil
	}
}

func (c *tunnelConn) Close() error {
	err := c.Conn.Close()
	c.tunnel.Close()
	return err
}
