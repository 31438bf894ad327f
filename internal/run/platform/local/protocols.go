package local

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"crypto/tls"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/gorilla/websocket"

	"github.com/tare-mesh/tare/internal/base/check"
	"github.com/tare-mesh/tare/internal/base/hint"
	"github.com/tare-mesh/tare/internal/base/routine"
	"github.com/tare-mesh/tare/internal/base/rpc"
	"github.com/tare-mesh/tare/internal/experiment/app"
	loads "github.com/tare-mesh/tare/internal/load"
	expect "github.com/tare-mesh/tare/internal/load/check"
)

// client sends requests in one protocol, each on its own connection.
type client struct {
	// probe sends one request as the load does, until ctx ends. An answer with an error has its status only.
	probe func(ctx context.Context, r *request) (check.Answer, error)
	// exchange requests the health of a pod's application on an existing connection.
	exchange func(ctx context.Context, conn net.Conn, p *pod) error
}

// clients by protocol.
var clients = map[string]client{
	app.HTTP1: {probeHTTP(1), exchangeHTTP1},
	app.HTTP2: {probeHTTP(2), exchangeHTTP2},
	app.GRPC:  {probeGRPC, exchangeGRPC},
	app.TCP:   {probeTCP, exchangeTCP},

	app.WebSocket: {probeWebSocket, exchangeHTTP1},
}

func probeHTTP(version int) func(context.Context, *request) (check.Answer, error) {
	client := http.Client{
		Transport:     &http.Transport{DisableKeepAlives: true, DisableCompression: true, Protocols: protocols(version), TLSClientConfig: anyCertificate},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	return func(ctx context.Context, r *request) (check.Answer, error) { return r.send(ctx, client) }
}

// maxMessage is the maximum size of a gRPC message, bytes.
const maxMessage = app.MaxSize + 16

// probeGRPC calls the method of a request. A stream is not opened: the probe is then a health check.
func probeGRPC(ctx context.Context, r *request) (a check.Answer, err error) {
	header, method := r.header.Clone(), r.url.Path
	header.Set(app.AloneHeader, "1")
	message := rpc.Message{rpc.Append(nil, app.GRPCPayload, r.body)}
	switch {
	case r.load.GRPCStream || len(r.load.Messages) > 0:
		method, message = rpc.HealthCheck, rpc.Message{}
	case r.load.IsMessage():
		message = rpc.Message{r.body}
	}
	over := &http.Transport{DisableKeepAlives: true, DisableCompression: true, Protocols: protocols(2)}
	answer, err := rpc.Call(ctx, over, r.url.Host, method, header, message, maxMessage)
	if status, ok := errors.AsType[*rpc.Error](err); ok {
		a.Status = fmt.Sprintf("grpc-%d", status.Code)
		if r.load.Success()[loads.StatusOf(a.Status)] {
			err = nil
		}
		return a, err
	}
	if err != nil {
		return a, err
	}
	fields, err := rpc.Fields(answer)
	if err != nil {
		return a, err
	}
	n := int64(0)
	for _, f := range fields {
		if f.Number == app.GRPCPayload {
			n = int64(len(f.Bytes))
		}
	}
	if want := r.load.ExpectSize; want >= 0 && n != want {
		return a, fmt.Errorf("%d bytes", n)
	}
	size, sum := int64(len(answer)), sha256.Sum256(answer)
	return check.Answer{Status: "grpc-0", Bytes: &size, SHA256: hex.EncodeToString(sum[:])}, nil
}

// probeTCP sends the bytes of a request, at least one, and expects its answer.
func probeTCP(ctx context.Context, r *request) (a check.Answer, err error) {
	conn, err := new(net.Dialer).DialContext(ctx, "tcp", r.url.Host)
	if err != nil {
		return a, err
	}
	defer conn.Close()
	sent := r.body
	want := loads.Exchange{Send: sent, Expect: r.load.Answer, Until: r.load.Until}
	if len(want.Expect)+len(want.Until) == 0 {
		sent = bytes.Repeat([]byte("x"), max(len(r.body), 1))
		want = loads.Exchange{Send: sent, Expect: sent}
	}
	return a, answered(ctx, conn, r.load.Opening, want)
}

// probeWebSocket opens a connection. A service of tare must also send its message back, but that
// of a program of the user is unknown.
func probeWebSocket(ctx context.Context, r *request) (a check.Answer, err error) {
	header := r.header.Clone()
	header.Set(app.AloneHeader, "1")
	header.Del(app.AnswersHeader) // the probe expects an echo
	c, resp, err := new(websocket.Dialer).DialContext(ctx, "ws"+strings.TrimPrefix(r.url.String(), "http"), header)
	if resp != nil {
		defer resp.Body.Close()
	}
	if errors.Is(err, websocket.ErrBadHandshake) && resp != nil {
		return a, fmt.Errorf("the handshake of WebSocket is answered with %s", resp.Status)
	}
	if err != nil {
		return a, err
	}
	defer c.Close()
	if r.echoes {
		deadline, _ := ctx.Deadline()
		message := bytes.Repeat([]byte("x"), len(r.body))
		if err := errors.Join(c.SetReadDeadline(deadline), c.SetWriteDeadline(deadline), c.WriteMessage(websocket.TextMessage, message)); err != nil {
			return a, err
		}
		_, got, err := c.ReadMessage()
		if err != nil {
			return a, err
		}
		if !bytes.Equal(got, message) {
			return a, fmt.Errorf("the message of %d bytes came back changed", len(message))
		}
	}
	return a, c.WriteControl(websocket.CloseMessage, websocket.FormatCloseMessage(websocket.CloseNormalClosure, ""), time.Now().Add(probeTimeout))
}

// exchangeHTTP1 writes the request itself. After a failed write the read has the better error, as
// a refusal may have arrived before.
func exchangeHTTP1(_ context.Context, conn net.Conn, p *pod) error {
	_, _ = io.WriteString(conn, "GET "+p.healthPath()+" HTTP/1.1\r\nHost: "+p.host+"\r\nConnection: close\r\n\r\n")
	resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		return fmt.Errorf("no answer to a request: %w", err)
	}
	resp.Body.Close()
	return p.admits(resp.StatusCode)
}

func exchangeHTTP2(ctx context.Context, conn net.Conn, p *pod) error {
	transport := onlyConn(conn)
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+p.service+p.healthPath(), nil)
	if err != nil {
		return err
	}
	r.Host = p.host
	resp, err := transport.RoundTrip(r)
	if err != nil {
		return fmt.Errorf("no answer to a request: %w", err)
	}
	resp.Body.Close()
	return p.admits(resp.StatusCode)
}

func exchangeGRPC(ctx context.Context, conn net.Conn, p *pod) error {
	err := rpc.Healthy(ctx, onlyConn(conn), p.host)
	if p.own.IsOwn() {
		err = anyStatus(err)
	}
	return hint.Prefix(err, "no answer to a request")
}

// onlyConn sends requests by HTTP/2 on an existing connection.
func onlyConn(conn net.Conn) *http.Transport {
	left := make(chan net.Conn, 1)
	left <- conn
	return &http.Transport{DisableKeepAlives: true, Protocols: protocols(2), DialContext: func(context.Context, string, string) (net.Conn, error) {
		select {
		case c := <-left:
			return c, nil
		default:
			return nil, errors.New("the connection was closed")
		}
	}}
}

// anyCertificate is for a program of the user with TLS of its own, on this machine.
var anyCertificate = &tls.Config{InsecureSkipVerify: true} //nolint:gosec // its certificate is not what is measured

func protocols(version int) *http.Protocols {
	var p http.Protocols
	p.SetHTTP1(version == 1)
	p.SetHTTP2(version == 2)
	p.SetUnencryptedHTTP2(version == 2)
	return &p
}

func exchangeTCP(ctx context.Context, conn net.Conn, p *pod) error {
	want := loads.Exchange{Send: []byte("tare\n"), Expect: []byte("tare\n")}
	if x := p.own.Exchange; x.Send != "" {
		want = loads.Exchange{Send: []byte(x.Send), Expect: []byte(x.Expect), Until: []byte(x.Until)}
		if o := x.Opening; o != nil {
			opening := loads.Exchange{Send: []byte(o.Send), Expect: []byte(o.Expect), Until: []byte(o.Until)}
			return answered(ctx, conn, &opening, want)
		}
	}
	return answered(ctx, conn, nil, want)
}

// answered carries out an exchange on a connection, after its opening if that is not nil.
func answered(ctx context.Context, conn net.Conn, opening *loads.Exchange, x loads.Exchange) error {
	if deadline, ok := ctx.Deadline(); ok {
		if err := conn.SetDeadline(deadline); err != nil {
			return err
		}
	}
	if opening != nil {
		if err := answered(ctx, conn, nil, *opening); err != nil {
			return fmt.Errorf("the opening of the connection: %w", err)
		}
	}
	wrote := make(chan error, 1)
	go routine.Guarded(func() {
		_, err := conn.Write(x.Send)
		wrote <- err
	})()
	got, err := readAnswer(conn, x)
	if failed := errors.Join(err, <-wrote); failed != nil && len(got) == 0 {
		return failed
	}
	switch {
	case len(x.Until) == 0 && !bytes.Equal(got, x.Expect), !bytes.HasPrefix(got, x.Expect):
		return fmt.Errorf("%.60q is the answer to %.60q, %.60q is expected", got, x.Send, x.Expect)
	case !bytes.HasSuffix(got, x.Until):
		return fmt.Errorf("%.60q is the answer to %.60q, and does not end with %.60q", got, x.Send, x.Until)
	}
	return nil
}

// readAnswer reads as many bytes as the answer has, or up to its end.
func readAnswer(conn net.Conn, x loads.Exchange) ([]byte, error) {
	if len(x.Until) == 0 {
		got := make([]byte, len(x.Expect))
		n, err := io.ReadFull(conn, got)
		return got[:n], err
	}
	var got []byte
	for one := make([]byte, 1<<10); !bytes.HasSuffix(got, x.Until) && len(got) < maxMessage; {
		n, err := conn.Read(one)
		if got = append(got, one[:n]...); err != nil {
			return got, err
		}
	}
	return got, nil
}

// request is a request of the load, as a probe sends it.
type request struct {
	name   string // the one of the load, or method and path
	url    *url.URL
	load   loads.Profile // of its target
	method string
	body   []byte
	header http.Header // Host included
	echoes bool        // a message over WebSocket comes back
}

// requestsOf are the requests of the probes, in the order of the load's targets. A load of more targets has some of them.
func requestsOf(p loads.Profile) ([]request, error) {
	all := make([]request, probes)
	for i := range all {
		target := i % len(p.Targets)
		if n := len(p.Targets); n > probes {
			target = i * n / probes
		}
		r, err := requestOf(&p, target)
		if err != nil {
			return nil, fmt.Errorf("target %s: %w", p.Targets[target], err)
		}
		all[i] = r
	}
	return all, nil
}

func requestOf(p *loads.Profile, target int) (request, error) {
	r := request{load: p.ForTarget(target), header: http.Header{}}
	var err error
	if r.url, err = url.Parse(p.Targets[target]); err != nil {
		return r, err
	}
	for _, line := range r.load.Headers {
		name, value, _ := strings.Cut(line, ":")
		r.header.Set(name, strings.TrimSpace(value))
	}
	if r.body = r.load.Body; r.body == nil {
		r.body = make([]byte, r.load.RequestSize)
	}
	if r.method = r.load.Method; r.method == "" {
		if r.method = http.MethodGet; len(r.body) > 0 {
			r.method = http.MethodPost
		}
	}
	if r.name = r.method + " " + r.url.Path; target < len(p.Calls) {
		r.name = cmp.Or(p.Calls[target].Name, r.name)
	}
	return r, nil
}

// send sends the request over HTTP, each time on a connection of its own, and checks a successful answer.
func (r *request) send(ctx context.Context, client http.Client) (a check.Answer, err error) {
	out, err := r.http(ctx)
	if err != nil {
		return a, err
	}
	resp, err := client.Do(out)
	if err != nil {
		return a, err
	}
	defer resp.Body.Close()
	want := expect.New(&r.load)
	content, sum := want.NewContent(), sha256.New()
	var start strings.Builder
	size, err := io.Copy(io.MultiWriter(sum, adder{&content}, &limitWriter{&start, 200}), resp.Body)
	if err != nil {
		return a, fmt.Errorf("read the answer: %w", err)
	}
	if !r.load.Success()[resp.StatusCode] {
		return check.Answer{Status: fmt.Sprint(resp.StatusCode)}, fmt.Errorf("status %s%s, %q", resp.Status, naming(resp.Header), strings.Join(strings.Fields(start.String()), " "))
	}
	switch failure := want.Check(resp.StatusCode, size, &content); failure {
	case loads.FailureNone:
	case loads.FailureWrongSize:
		return a, fmt.Errorf("%d bytes", size)
	default:
		return a, errors.New(failure.String())
	}
	kind := resp.Header.Get("Content-Type")
	return check.Answer{Status: fmt.Sprint(resp.StatusCode), Bytes: &size, ContentType: &kind, SHA256: hex.EncodeToString(sum.Sum(nil))}, nil
}

// http is the request as the load engine sends it, and with the mark of a probe.
func (r *request) http(ctx context.Context) (*http.Request, error) {
	var body io.Reader = http.NoBody
	if len(r.body) > 0 {
		body = bytes.NewReader(r.body)
	}
	out, err := http.NewRequestWithContext(ctx, r.method, r.url.String(), body)
	if err != nil {
		return nil, err
	}
	if out.Header.Set("User-Agent", "tare"); len(r.body) > 0 {
		out.Header.Set("Content-Type", "application/octet-stream")
	}
	maps.Copy(out.Header, r.header)
	out.Host = out.Header.Get("Host") // empty: the host of the URL
	out.Header.Del("Host")
	out.Header.Set(app.AloneHeader, "1")
	return out, nil
}

// limitWriter keeps the first bytes and discards the rest.
type limitWriter struct {
	to   *strings.Builder
	left int
}

func (l *limitWriter) Write(b []byte) (int, error) {
	keep := b[:min(len(b), l.left)]
	l.left -= len(keep)
	l.to.Write(keep)
	return len(b), nil
}

// adder writes to the checked part of an answer.
type adder struct{ to *expect.Content }

func (a adder) Write(b []byte) (int, error) {
	a.to.Add(b)
	return len(b), nil
}
