package worker

import (
	"archive/tar"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"path"
	"strconv"
	"strings"
	"time"

	"github.com/tare-mesh/tare/internal/base/clock"
	"github.com/tare-mesh/tare/internal/base/httpserver"
	"github.com/tare-mesh/tare/internal/base/wait"
)

const (
	firstPause   = 50 * time.Millisecond // after a failure, doubled at each
	longestPause = 2 * time.Second
	// retryTimeout is the default of [Client.RetryTimeout].
	retryTimeout = 90 * time.Second
	// answerTimeout bounds one request and its response, but a stream has no bound.
	answerTimeout = 20 * time.Second
	// maxAnswer bounds a response that is not a stream, in bytes.
	maxAnswer = 1 << 20
)

type Client struct {
	http  *http.Transport
	token string
	// RetryTimeout bounds the retries of an unreachable worker since the last progress.
	RetryTimeout time.Duration
}

// NewClient returns a client that connects with dial.
func NewClient(dial func(ctx context.Context, network, address string) (net.Conn, error), token string) *Client {
	// One request per connection: a broken forwarded connection is not always detected.
	return &Client{http: &http.Transport{DialContext: dial, DisableKeepAlives: true, DisableCompression: true},
		token: token, RetryTimeout: retryTimeout}
}

// Clock returns the offset of the worker's clock (positive: ahead) and the maximum
// error of the offset.
func (c *Client) Clock(ctx context.Context) (ahead, unsure time.Duration, err error) {
	return clock.Measure(time.Now, func() (stamps clock.Stamps, err error) {
		return stamps, c.callRetrying(ctx, "ask for the time", http.MethodGet, "/clock", nil, &stamps)
	})
}

// Start starts a command on the worker. The command continues when ctx ends.
func (c *Client) Start(ctx context.Context, command Command) (*Run, error) {
	r := &Run{client: c, id: command.ID}
	if err := c.callRetrying(ctx, "start "+path.Base(command.Path), http.MethodPost, "/run", command, &r.first); err != nil {
		return nil, err
	}
	return r, nil
}

// Run is a command that a worker runs.
type Run struct {
	client *Client
	id     string
	first  Status
}

// Status returns the state of the run.
func (r *Run) Status(ctx context.Context) (Status, error) {
	var s Status
	err := r.client.callRetrying(ctx, "get the state of the command", http.MethodGet, r.path("status"), nil, &s)
	return s, err
}

// Copy copies the command's output stream ([Stdout], [Stderr]) to w as it arrives.
// After a broken connection it resumes at the next byte. It returns when the
// command has ended and w has all bytes.
func (r *Run) Copy(ctx context.Context, stream string, w io.Writer) error {
	to := &writer{to: w}
	err := r.client.retry(ctx, "read the output of the command", func(ctx context.Context) (bool, error) {
		before := to.n
		err := r.copyOnce(ctx, stream, to)
		return to.n > before, err
	})
	if to.err != nil {
		return to.err
	}
	return err
}

// copyOnce reads one response. An end that the worker does not confirm is a broken connection.
func (r *Run) copyOnce(ctx context.Context, stream string, to *writer) error {
	resp, err := r.client.open(ctx, http.MethodGet, r.path(stream, "from", strconv.FormatInt(to.n, 10)), nil)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if _, err := io.Copy(to, resp.Body); err != nil {
		if to.err != nil {
			return &httpserver.Refused{Message: to.err.Error()} // the local writer failed: do not retry
		}
		return err
	}
	var s Status
	if err := r.client.call(ctx, http.MethodGet, r.path("status"), nil, &s); err != nil {
		return err
	}
	size := s.Stdout
	if stream == Stderr {
		size = s.Stderr
	}
	if !s.Ended || to.n < size {
		return io.ErrUnexpectedEOF
	}
	return nil
}

// writer counts the bytes it receives. err separates errors of the destination from errors of the connection.
type writer struct {
	to  io.Writer
	n   int64
	err error
}

func (w *writer) Write(b []byte) (int, error) {
	n, err := w.to.Write(b)
	w.n += int64(n)
	w.err = err
	return n, err
}

// maxFiles bounds the files of a run, and maxFile each of them in bytes.
const (
	maxFiles = 1000
	maxFile  = 4 << 30
)

// Files reads the files in the command's directory after the command has ended.
// It calls keep for each file with a clean relative path with slashes. After a
// broken connection it calls keep again for all files.
func (r *Run) Files(ctx context.Context, keep func(name string, content io.Reader) error) error {
	return r.client.retry(ctx, "fetch what the command left", func(ctx context.Context) (bool, error) {
		resp, err := r.client.open(ctx, http.MethodGet, r.path("files"), nil)
		if err != nil {
			return false, err
		}
		defer resp.Body.Close()
		return false, readFiles(resp.Body, keep)
	})
}

// open sends one request and returns the response as a stream. The caller closes it.
func (c *Client) open(ctx context.Context, method, target string, body any) (*http.Response, error) {
	resp, err := httpserver.Do(ctx, c.http, c.token, method, "http://worker"+target, body)
	return resp, temporary(err)
}

func readFiles(from io.Reader, keep func(name string, content io.Reader) error) error {
	archive := tar.NewReader(from)
	for n := 0; ; n++ {
		h, err := archive.Next()
		if err == io.EOF {
			// After the archive only the end of the response may follow.
			_, err = io.Copy(io.Discard, from)
			return err
		}
		if err != nil {
			return err
		}
		switch {
		case n >= maxFiles:
			return &httpserver.Refused{Message: fmt.Sprintf("more than %d files", maxFiles)}
		case h.Typeflag != tar.TypeReg || h.Size > maxFile:
			return &httpserver.Refused{Message: fmt.Sprintf("%.80q is not a file of at most %d bytes", h.Name, int64(maxFile))}
		case h.Name != path.Clean(h.Name) || path.IsAbs(h.Name) || h.Name == ".." || strings.HasPrefix(h.Name, "../") || strings.ContainsAny(h.Name, "\\\x00"):
			return &httpserver.Refused{Message: fmt.Sprintf("%.80q is not a name of a file in a directory", h.Name)}
		}
		if err := keep(h.Name, archive); err != nil {
			return err
		}
	}
}

// Stop interrupts the command, and kills it after grace. It does not wait.
func (r *Run) Stop(ctx context.Context, grace time.Duration) error {
	return r.client.callRetrying(ctx, "stop the command", http.MethodPost, r.path("stop"), stopRequest{grace}, nil)
}

func (c *Client) callRetrying(ctx context.Context, what, method, target string, body, into any) error {
	return c.retry(ctx, what, func(ctx context.Context) (bool, error) { return false, c.call(ctx, method, target, body, into) })
}

// retry calls do until it succeeds, is refused, or the worker is unreachable for
// longer than RetryTimeout since the last progress.
func (c *Client) retry(ctx context.Context, what string, do func(context.Context) (progress bool, err error)) error {
	pause, since := firstPause, time.Now()
	for {
		progress, err := do(ctx)
		var refused *httpserver.Refused
		switch {
		case err == nil:
			return nil
		case errors.As(err, &refused):
			return fmt.Errorf("%s: %w", what, err)
		case ctx.Err() != nil:
			return fmt.Errorf("%s: %w", what, context.Cause(ctx))
		case progress:
			pause, since = firstPause, time.Now()
		case time.Since(since) > c.RetryTimeout:
			return fmt.Errorf("%s: the load worker has not responded for %v: %w", what, c.RetryTimeout, err)
		}
		_ = wait.For(ctx, pause)
		pause = min(2*pause, longestPause)
	}
}

// call sends one request and reads the whole response.
func (c *Client) call(ctx context.Context, method, target string, body, into any) error {
	ctx, cancel := context.WithTimeout(ctx, answerTimeout)
	defer cancel()
	return temporary(httpserver.Call(ctx, c.http, c.token, method, "http://worker"+target, body, maxAnswer, into))
}

// temporary returns the error of a proxy on the way without its status, so that the call is repeated.
func temporary(err error) error {
	if refused, ok := errors.AsType[*httpserver.Refused](err); ok && refused.Status >= 500 {
		return errors.New(refused.Message)
	}
	return err
}

func (r *Run) path(name string, more ...string) string {
	q := url.Values{"run": {r.id}}
	for i := 0; i+1 < len(more); i += 2 {
		q.Set(more[i], more[i+1])
	}
	return "/" + name + "?" + q.Encode()
}
