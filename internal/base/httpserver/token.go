package httpserver

import (
	"bytes"
	"context"
	"crypto/subtle"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/tare-mesh/tare/internal/base/clock"
	"github.com/tare-mesh/tare/internal/base/hint"
)

const (
	// minToken is the minimum length of a token, in characters.
	minToken = 16
	// headerTimeout bounds the receipt of a request's header, idleTimeout the time without a request.
	headerTimeout = 10 * time.Second
	idleTimeout   = 10 * time.Minute
	maxHeader     = 16 << 10 // bytes
	// maxRefusal bounds the body of a response that is not 2xx, in bytes.
	maxRefusal = 1 << 20
)

// TokenServer serves JSON to clients that have the token of a run. tare's own programs in a cluster listen with it on
// the loopback address of their pod, and tare calls them with [Do] or [Call] through a forwarded connection.
type TokenServer struct {
	*http.ServeMux
	token string
}

// NewTokenServer returns a server of GET /clock. The caller adds its own patterns.
func NewTokenServer(token string) (*TokenServer, error) {
	if len(token) < minToken {
		return nil, fmt.Errorf("the token has %d characters, fewer than %d", len(token), minToken)
	}
	s := &TokenServer{http.NewServeMux(), token}
	s.HandleFunc("GET /clock", func(w http.ResponseWriter, _ *http.Request) {
		received := time.Now().UnixNano()
		Answer(w, http.StatusOK, clock.Stamps{Received: received, Sent: time.Now().UnixNano()})
	})
	return s, nil
}

// Serve serves on l until ctx ends.
func (s *TokenServer) Serve(ctx context.Context, l net.Listener) error {
	return Serve(ctx, l, &http.Server{Handler: s, ReadHeaderTimeout: headerTimeout, IdleTimeout: idleTimeout, MaxHeaderBytes: maxHeader})
}

// ServeHTTP serves requests with the token and refuses others.
func (s *TokenServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if !Authorized(w, r, s.token) {
		Refuse(w, http.StatusUnauthorized, "the token of the run is missing")
		return
	}
	s.ServeMux.ServeHTTP(w, r)
}

// Authorized reports whether a request has a token. Without it the response gets the header of a refusal.
func Authorized(w http.ResponseWriter, r *http.Request, token string) bool {
	scheme, credentials, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	if strings.EqualFold(scheme, "Bearer") && subtle.ConstantTimeCompare([]byte(strings.TrimSpace(credentials)), []byte(token)) == 1 {
		return true
	}
	w.Header().Set("WWW-Authenticate", `Bearer realm="tare"`)
	return false
}

// Decode reads the JSON object of a request, without unknown fields, of at most max bytes. It refuses another body and
// returns false.
func Decode(w http.ResponseWriter, r *http.Request, max int64, into any) bool {
	d := json.NewDecoder(http.MaxBytesReader(w, r.Body, max))
	d.DisallowUnknownFields()
	err := d.Decode(into)
	if err == nil && d.Decode(&struct{}{}) != io.EOF {
		err = errors.New("text after the JSON object")
	}
	if err != nil {
		Refuse(w, http.StatusBadRequest, "read the request: %v", err)
	}
	return err == nil
}

// Handle returns a handler of requests with a JSON value, of at most max bytes, that answers with the result of handle. An error
// has the status of [Fail], else 500.
func Handle[In, Out any](max int64, handle func(*http.Request, In) (Out, error)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		var in In
		if !Decode(w, r, max, &in) {
			return
		}
		out, err := handle(r, in)
		var failed *failure
		switch {
		case errors.As(err, &failed):
			Refuse(w, failed.status, "%w", failed.error)
		case err != nil:
			Refuse(w, http.StatusInternalServerError, "%w", err)
		default:
			Answer(w, http.StatusOK, out)
		}
	}
}

type failure struct {
	error
	status int
}

// Fail returns the error of a handler with a status.
func Fail(status int, format string, args ...any) error {
	return &failure{fmt.Errorf(format, args...), status}
}

// refusal is the body of a response that is not 2xx.
type refusal struct {
	Error string `json:"error"`
	Hint  string `json:"hint,omitempty"`
}

// Refuse writes the reason for which a request is refused, with the hint of an error in it. The format is as in [fmt.Errorf].
func Refuse(w http.ResponseWriter, status int, format string, args ...any) {
	err := fmt.Errorf(format, args...)
	Answer(w, status, refusal{err.Error(), hint.Of(err)})
}

// Answer writes v as JSON.
func Answer(w http.ResponseWriter, status int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(v) // an error is a broken connection
}

// Refused is the error of a response that is not 2xx.
type Refused struct {
	Status          int
	Message, Remedy string
}

func (e *Refused) Error() string { return e.Message }

// Hint returns the hint of the server's error.
func (e *Refused) Hint() string { return e.Remedy }

// Call sends a request with [Do], and reads a JSON response of at most max bytes, unless into is nil.
func Call(ctx context.Context, over http.RoundTripper, token, method, url string, body any, max int64, into any) error {
	resp, err := Do(ctx, over, token, method, url, body)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if into == nil {
		return nil
	}
	text, err := io.ReadAll(io.LimitReader(resp.Body, max))
	if err != nil {
		return err
	}
	return json.Unmarshal(text, into)
}

// Do sends a request to a [TokenServer], with body as JSON unless it is nil. The caller closes the response, which is 2xx.
// The error of another response is a [*Refused].
func Do(ctx context.Context, over http.RoundTripper, token, method, url string, body any) (*http.Response, error) {
	var sent io.Reader
	if body != nil {
		text, err := json.Marshal(body)
		if err != nil {
			return nil, err
		}
		sent = bytes.NewReader(text)
	}
	r, err := http.NewRequestWithContext(ctx, method, url, sent)
	if err != nil {
		return nil, err
	}
	r.Header.Set("Authorization", "Bearer "+token)
	resp, err := over.RoundTrip(r)
	if err != nil || resp.StatusCode/100 == 2 {
		return resp, err
	}
	defer resp.Body.Close()
	text, _ := io.ReadAll(io.LimitReader(resp.Body, maxRefusal))
	var why refusal
	if json.Unmarshal(text, &why) != nil || why.Error == "" {
		why.Error = fmt.Sprintf("%s: %.200s", resp.Status, strings.TrimSpace(string(text)))
	}
	return nil, &Refused{resp.StatusCode, why.Error, why.Hint}
}
