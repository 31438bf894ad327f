package service

import (
	"bytes"
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"os"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/tare-mesh/tare/internal/base/hint"
	"github.com/tare-mesh/tare/internal/base/httpserver"
	"github.com/tare-mesh/tare/internal/base/lists"
	"github.com/tare-mesh/tare/internal/base/probe"
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

// Admin is the REST API of a service. It returns and changes the configuration,
// and takes calibration readings. Changes and readings require the token.
type Admin struct {
	service *Service
	token   string // empty: changes are refused
	ready   func() bool
	mux     *http.ServeMux
}

// NewAdmin returns the interface of s. ready reports whether s serves requests.
func NewAdmin(s *Service, token string, ready func() bool) *Admin {
	a := &Admin{service: s, token: token, ready: ready, mux: http.NewServeMux()}
	for path, methods := range map[string]map[string]http.HandlerFunc{
		"/config":       {"GET": a.getConfig, "PUT": a.changes(a.putConfig), "PATCH": a.changes(a.patchConfig)},
		"/reset":        {"POST": a.changes(a.reset)},
		ProbePath:       {"POST": ProbeHandler(token)},
		HealthPath:      {"GET": a.healthy},
		ReadyPath:       {"GET": a.readyz},
		StatsPath:       {"GET": a.stats},
		"/openapi.json": {"GET": a.openAPI},
	} {
		a.mux.HandleFunc(path, byMethod(methods))
	}
	a.mux.HandleFunc("/", func(w http.ResponseWriter, _ *http.Request) {
		problem(w, http.StatusNotFound, "there is no such path", "see /openapi.json", nil)
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
	for _, m := range []string{"GET", "HEAD", "PUT", "PATCH", "POST"} {
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

func (a *Admin) changes(next http.HandlerFunc) http.HandlerFunc { return withToken(a.token, next) }

func (a *Admin) getConfig(w http.ResponseWriter, r *http.Request) {
	etags, ok := etagsOf(w, r, "If-None-Match")
	if !ok {
		return
	}
	document, etag := a.service.Config()
	w.Header().Set("ETag", etag)
	if matches(etags, etag) {
		w.WriteHeader(http.StatusNotModified)
		return
	}
	w.Header().Set("Content-Type", typeJSON)
	_, _ = w.Write(document)
}

func (a *Admin) putConfig(w http.ResponseWriter, r *http.Request) {
	body, ok := readBody(w, r, typeJSON)
	if !ok {
		return
	}
	a.change(w, r, func(app.Instance) (app.Instance, error) { return app.DecodeInstance("body", body) })
}

func (a *Admin) patchConfig(w http.ResponseWriter, r *http.Request) {
	body, ok := readBody(w, r, typeMerge, typeJSON)
	if !ok {
		return
	}
	a.change(w, r, func(now app.Instance) (app.Instance, error) { return app.PatchInstance(now, "body", body) })
}

func (a *Admin) change(w http.ResponseWriter, r *http.Request, edit func(app.Instance) (app.Instance, error)) {
	etags, ok := etagsOf(w, r, "If-Match")
	if !ok {
		return
	}
	etag, err := a.service.Change(etags, edit)
	a.changed(w, etag, err)
}

// entityTag matches a version (RFC 9110, 8.8.3), or * for any version.
var entityTag = regexp.MustCompile(`^(\*|(W/)?"[\x21\x23-\x7e]*")$`)

// etagsOf returns the versions in a request header, none for any version.
func etagsOf(w http.ResponseWriter, r *http.Request, header string) ([]string, bool) {
	var etags []string
	for _, h := range r.Header.Values(header) {
		for e := range strings.SplitSeq(h, ",") {
			if e = strings.TrimSpace(e); e == "" { // list elements may be empty (RFC 9110, 5.6.1)
				continue
			}
			if !entityTag.MatchString(e) {
				problem(w, http.StatusBadRequest, header+" holds "+clip(e)+", expected an entity tag", `give the ETag of an answer as it is, in its quotes, or *`, nil)
				return nil, false
			}
			etags = append(etags, e)
		}
	}
	return etags, true
}

func (a *Admin) reset(w http.ResponseWriter, r *http.Request) {
	if _, ok := readBody(w, r); !ok {
		return
	}
	etag, err := a.service.Reset()
	a.changed(w, etag, err)
}

// changed writes the current configuration, or the reason for refusing the new
// one.
func (a *Admin) changed(w http.ResponseWriter, etag string, err error) {
	var mistakes strict.Problems
	switch {
	case err == nil:
		document, now := a.service.Config()
		if now != etag { // changed again meanwhile: document and ETag must match
			etag = now
		}
		w.Header().Set("ETag", etag)
		w.Header().Set("Content-Type", typeJSON)
		_, _ = w.Write(document)
	case errors.Is(err, errConflict):
		w.Header().Set("ETag", etag)
		problem(w, http.StatusPreconditionFailed, err.Error(), "read it again, and change that", nil)
	case errors.As(err, &mistakes):
		problem(w, http.StatusUnprocessableEntity, "the configuration is not valid", "", mistakesOf(mistakes))
	default:
		problem(w, http.StatusUnprocessableEntity, err.Error(), hint.Of(err), nil)
	}
}

func mistakesOf(ps strict.Problems) []Mistake {
	return lists.Map(ps, func(p strict.Problem) Mistake { return Mistake{p.Line, p.Column, p.Message, p.Tip} })
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

func (a *Admin) openAPI(w http.ResponseWriter, _ *http.Request) {
	b, err := openAPIDocument(a.service.start, a.service.maxMemory)
	if err != nil {
		problem(w, http.StatusInternalServerError, err.Error(), "", nil)
		return
	}
	w.Header().Set("Content-Type", typeJSON)
	_, _ = w.Write(b)
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

//go:embed openapi.json
var openAPI []byte

// openAPIDocument returns the OpenAPI 3.1 description of the admin interface, with the
// name, the protocol and the memory limit of this service.
func openAPIDocument(i app.Instance, maxMemory app.Size) ([]byte, error) {
	var doc map[string]any
	if err := json.Unmarshal(openAPI, &doc); err != nil {
		return nil, fmt.Errorf("describe the interface: %w", err)
	}
	schemas := doc["components"].(map[string]any)["schemas"].(map[string]any)
	config := schemas["Configuration"].(map[string]any)["properties"].(map[string]any)
	patch := schemas["Patch"].(map[string]any)["properties"].(map[string]any)
	name := map[string]any{"type": "string", "enum": []string{i.Name}, "description": "Name of the service. It cannot be changed."}
	config["name"], patch["name"] = name, name
	protocol := map[string]any{"type": "string", "enum": []string{i.Protocol}, "description": "Protocol that is spoken. It cannot be changed."}
	config["protocol"], patch["protocol"] = protocol, protocol
	if i.Protocol == "" { // remove may be applied to an absent field
		patch["protocol"] = map[string]any{"enum": []any{"", nil}, "description": protocol["description"]}
	} else {
		schemas["Configuration"].(map[string]any)["required"] = []string{"name", "protocol"}
	}
	memory := config["memory"].(map[string]any)["anyOf"].([]any)[0].(map[string]any)
	memory["maximum"] = int64(maxMemory)
	patch["memory"] = map[string]any{"anyOf": []any{config["memory"], map[string]any{"type": "null"}}}
	return json.MarshalIndent(doc, "", " ")
}

// ProbePath takes a calibration reading on the CPUs of the service and returns
// it as JSON.
const ProbePath = "/probe"

// ProbeHandler takes readings for requests with the token.
func ProbeHandler(token string) http.HandlerFunc {
	return withToken(token, (&prober{take: probe.Local{}.Probe}).serve)
}

// prober takes one reading at a time: concurrent readings would disturb each
// other.
type prober struct {
	busy sync.Mutex
	take func(context.Context) (probe.Reading, error)
}

func (p *prober) serve(w http.ResponseWriter, r *http.Request) {
	if _, ok := readBody(w, r); !ok {
		return
	}
	if !p.busy.TryLock() {
		problem(w, http.StatusConflict, "a reading is being taken", "wait for it", nil)
		return
	}
	defer p.busy.Unlock()
	runtime.GC() // now, not during the reading
	reading, err := p.take(r.Context())
	if err != nil {
		problem(w, http.StatusInternalServerError, err.Error(), "", nil)
		return
	}
	answerJSON(w, http.StatusOK, reading)
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
