package service

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"os"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/tare-mesh/tare/internal/base/hint"
	"github.com/tare-mesh/tare/internal/base/httpserver"
	"github.com/tare-mesh/tare/internal/base/lists"
	"github.com/tare-mesh/tare/internal/base/strict"
	"github.com/tare-mesh/tare/internal/experiment/app"
)

// Limits of the resources that a hostile or broken client can hold.
const (
	maxConfigBody    = 256 << 10 // bytes
	maxAdminHeader   = 16 << 10  // bytes
	adminConnections = 64
	adminTimeout     = 10 * time.Second // to send a whole request, and to receive its response
	adminIdle        = 30 * time.Second
)

// Media types of the admin interface.
const (
	typeJSON    = "application/json"
	typeMerge   = "application/merge-patch+json" // RFC 7396
	typeProblem = "application/problem+json"     // RFC 9457
)

// Admin is the REST API of a service. It returns and changes the configuration. Changes require the token.
type Admin struct {
	service *Service
	ready   func() bool
	mux     *http.ServeMux
}

// NewAdmin returns the interface of s. Without a token it refuses changes. ready reports whether s serves requests.
func NewAdmin(s *Service, token string, ready func() bool) *Admin {
	a := &Admin{service: s, ready: ready, mux: http.NewServeMux()}
	for path, methods := range map[string]map[string]http.HandlerFunc{
		"/config":  {"GET": a.getConfig, "PATCH": withToken(token, a.patchConfig)},
		HealthPath: {"GET": a.healthy},
		ReadyPath:  {"GET": a.readyz},
		StatsPath:  {"GET": a.stats},
	} {
		a.mux.HandleFunc(path, byMethod(methods))
	}
	a.mux.HandleFunc("/", func(w http.ResponseWriter, _ *http.Request) {
		problem(w, http.StatusNotFound, "there is no such path", "paths: /config, /stats, /healthz, /readyz", nil)
	})
	return a
}

// ServeHTTP implements [http.Handler].
func (a *Admin) ServeHTTP(w http.ResponseWriter, r *http.Request) { a.mux.ServeHTTP(w, r) }

// Server returns an HTTP server that limits all resources of a client.
func (a *Admin) Server() *http.Server {
	return &http.Server{
		Handler: a, ReadHeaderTimeout: adminTimeout / 2, ReadTimeout: adminTimeout, WriteTimeout: adminTimeout,
		IdleTimeout: adminIdle, MaxHeaderBytes: maxAdminHeader,
	}
}

func byMethod(methods map[string]http.HandlerFunc) http.HandlerFunc {
	var allow []string
	if get := methods["GET"]; get != nil {
		methods["HEAD"] = get // net/http omits the body
	}
	for _, m := range []string{"GET", "HEAD", "PATCH", "POST"} {
		if methods[m] != nil {
			allow = append(allow, m)
		}
	}
	return func(w http.ResponseWriter, r *http.Request) {
		h, ok := methods[r.Method]
		if !ok {
			w.Header().Set("Allow", strings.Join(allow, ", "))
			problem(w, http.StatusMethodNotAllowed, "the method "+clip(r.Method)+" is not for this path", "allowed: "+strings.Join(allow, ", "), nil)
			return
		}
		h(w, r)
	}
}

// Problem is the response to a request that fails (RFC 9457).
type Problem struct {
	Title    string    `json:"title"`
	Status   int       `json:"status"`
	Hint     string    `json:"hint,omitempty"`
	Mistakes []Mistake `json:"mistakes,omitempty"`
}

// Mistake is one mistake in a configuration.
type Mistake struct {
	Line    int    `json:"line"`
	Column  int    `json:"column"`
	Message string `json:"message"`
	Hint    string `json:"hint,omitempty"`
}

func (a *Admin) getConfig(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", typeJSON)
	_, _ = w.Write(a.service.Config())
}

func (a *Admin) patchConfig(w http.ResponseWriter, r *http.Request) {
	body, ok := readBody(w, r, typeMerge, typeJSON)
	if !ok {
		return
	}
	err := a.service.Change(func(now app.Instance) (app.Instance, error) { return app.PatchInstance(now, "body", body) })
	var mistakes strict.Problems
	switch {
	case err == nil:
		a.getConfig(w, r)
	case errors.As(err, &mistakes):
		problem(w, http.StatusUnprocessableEntity, "the configuration is not valid", "",
			lists.Map(mistakes, func(p strict.Problem) Mistake { return Mistake{p.Line, p.Column, p.Message, p.Tip} }))
	default:
		problem(w, http.StatusUnprocessableEntity, err.Error(), hint.Of(err), nil)
	}
}

// readBody reads a body of one of the media types. Without types the body must
// be empty.
func readBody(w http.ResponseWriter, r *http.Request, types ...string) ([]byte, bool) {
	if len(types) > 0 {
		mediaType, _, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
		if err != nil || !slices.Contains(types, mediaType) {
			w.Header().Set("Accept", strings.Join(types, ", "))
			problem(w, http.StatusUnsupportedMediaType, "found Content-Type "+clip(r.Header.Get("Content-Type"))+", expected "+types[0], "", nil)
			return nil, false
		}
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxConfigBody))
	var large *http.MaxBytesError
	switch {
	case errors.As(err, &large):
		w.Header().Set("Connection", "close")
		problem(w, http.StatusRequestEntityTooLarge, fmt.Sprintf("the body is larger than %d bytes", maxConfigBody), "", nil)
		return nil, false
	case err != nil:
		problem(w, http.StatusBadRequest, "the body could not be read", "", nil)
		return nil, false
	case len(types) > 0 && !json.Valid(body):
		problem(w, http.StatusBadRequest, "the body is not JSON", "", nil)
		return nil, false
	}
	return body, true
}

func clip(s string) string { return fmt.Sprintf("%.40q", s) }

func (a *Admin) healthy(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) }

func (a *Admin) readyz(w http.ResponseWriter, _ *http.Request) {
	if !a.ready() {
		problem(w, http.StatusServiceUnavailable, "the service does not answer requests", "", nil)
		return
	}
	w.WriteHeader(http.StatusNoContent)
}

func (a *Admin) stats(w http.ResponseWriter, _ *http.Request) {
	answerJSON(w, http.StatusOK, a.service.Stats())
}

func problem(w http.ResponseWriter, status int, title, hint string, mistakes []Mistake) {
	w.Header().Set("Content-Type", typeProblem)
	answerJSON(w, status, Problem{title, status, hint, mistakes})
}

// maxToken is the max size of a token file, bytes.
const maxToken = 4096

// ReadToken reads the token of the run. It refuses a file that other users can
// read, except a Secret mounted into a pod, which belongs to another user and is
// readable by a group.
func ReadToken(path string) (token string, err error) {
	defer func() { err = hint.Prefix(err, "read token") }()
	f, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return "", err
	}
	if info.Mode().Perm()&0o077 != 0 && !isMounted(info) {
		return "", hint.New("chmod 600 "+path, "other users may read %s (mode %04o)", path, info.Mode().Perm())
	}
	b, err := io.ReadAll(io.LimitReader(f, maxToken))
	if token = string(bytes.TrimSpace(b)); err == nil && len(token) < 16 {
		err = fmt.Errorf("%s holds %d characters, fewer than 16", path, len(token))
	}
	return token, err
}

// withToken requires the token. Without a token it refuses every request.
func withToken(token string, next http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if token == "" {
			problem(w, http.StatusForbidden, "this service cannot be changed", "start it with --token-file", nil)
			return
		}
		if !httpserver.Authorized(w, r, token) {
			problem(w, http.StatusUnauthorized, "changes need the token of the run", "send Authorization: Bearer …", nil)
			return
		}
		next(w, r)
	}
}

// isMounted reports whether a file belongs to another user and is readable by a group only, as a mounted Secret is.
func isMounted(info os.FileInfo) bool {
	stat, ok := info.Sys().(*syscall.Stat_t)
	return ok && int(stat.Uid) != os.Geteuid() && info.Mode().Perm()&0o037 == 0
}
