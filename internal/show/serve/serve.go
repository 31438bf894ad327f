// Package serve shows results directories in a browser: a list, the page of a run, two runs
// compared, and a run under way. It only reads, and only below the directories it was given.
package serve

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"embed"
	"encoding/json"
	"errors"
	"fmt"
	"html/template"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/tare-mesh/tare/internal/answer"
	"github.com/tare-mesh/tare/internal/base/hint"
	"github.com/tare-mesh/tare/internal/base/printable"
	"github.com/tare-mesh/tare/internal/compare"
	"github.com/tare-mesh/tare/internal/result"
	"github.com/tare-mesh/tare/internal/show/live"
	"github.com/tare-mesh/tare/internal/show/page"
)

//go:embed assets
var assets embed.FS

var layouts = template.Must(template.New("").ParseFS(assets, "assets/*.html"))

// Config sets the content of a server, and its clients.
type Config struct {
	Dirs []string // results directories, or directories with some
	// Listen is the address of the listener. Requests for other hosts are refused: a name of an
	// attacker may resolve to this machine.
	Listen net.Addr
	// Token that requests need. Empty means none.
	Token string
	// Page writes the complete page of the results directory at path, and Compare the page of two.
	Page    func(w io.Writer, path string) error
	Compare func(w io.Writer, base, next string) error
}

// Server is the handler of all pages. Close it.
type Server struct {
	Config
	index     *index
	summaries *summaries
	streams   chan struct{} // a place for each stream of events
	making    chan struct{} // a place for each page that is being made
	mux       *http.ServeMux
	session   string // the cookie of browsers that have given the token: one that leaks is not the token

	mu    sync.Mutex
	pages map[string][]byte // of runs that have ended, by their stamp
}

const (
	mostStreams = 16
	mostPages   = 32 // kept in memory
	mostMaking  = 2  // made at a time: each analyses a run many times
)

// New opens the directories.
func New(c Config) (*Server, error) {
	index, err := openIndex(c.Dirs)
	if err != nil {
		return nil, err
	}
	s := &Server{Config: c, index: index, streams: make(chan struct{}, mostStreams), making: make(chan struct{}, mostMaking), mux: http.NewServeMux(), session: rand.Text(), pages: map[string][]byte{}}
	s.summaries = newSummaries()
	for pattern, show := range map[string]func(http.ResponseWriter, *http.Request) error{
		"/{$}": s.list, "/run/{id...}": s.run, "/live/{id...}": s.live, "/events/{id...}": s.events, "/compare": s.compare,
	} {
		s.mux.Handle("GET "+pattern, handler(show))
	}
	for name, kind := range map[string]string{"serve.css": "text/css", "serve.js": "text/javascript"} {
		content, err := assets.ReadFile("assets/" + name)
		if err != nil {
			return nil, err
		}
		s.mux.HandleFunc("GET /"+name, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", kind+"; charset=utf-8")
			_, _ = w.Write(content)
		})
	}
	return s, nil
}

// Close ends the making of summaries, and closes the directories.
func (s *Server) Close() error {
	s.summaries.close()
	return s.index.close()
}

// ServeHTTP checks the request before any page sees it.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	h.Set("Content-Security-Policy", policy)
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
	h.Set("Cross-Origin-Opener-Policy", "same-origin")
	h.Set("Cache-Control", "no-store")
	switch {
	case !s.ownHost(r.Host):
		http.Error(w, "this server has another name: open the address that tare serve printed", http.StatusMisdirectedRequest)
	case ofOtherSite(r):
		http.Error(w, "a page of another site asked for this", http.StatusForbidden)
	case r.Method != http.MethodGet && r.Method != http.MethodHead:
		h.Set("Allow", "GET, HEAD")
		http.Error(w, "tare serve only reads", http.StatusMethodNotAllowed)
	case !s.admitted(w, r):
	default:
		s.mux.ServeHTTP(w, r)
	}
}

// ofOtherSite reports whether a page of another site, or of another port, has a part from here. It could not read it,
// but have this machine work while it measures. A link to here is none.
func ofOtherSite(r *http.Request) bool {
	site := r.Header.Get("Sec-Fetch-Site")
	return (site == "cross-site" || site == "same-site") && r.Header.Get("Sec-Fetch-Dest") != "document"
}

// policy allows the server's own files and streams, and nothing from elsewhere. The page of a run has
// a stricter one.
const policy = "default-src 'none'; style-src 'self'; script-src 'self'; connect-src 'self'; img-src data:; base-uri 'none'; form-action 'self'; frame-ancestors 'none'"

// ownHost reports whether a Host header names this server.
func (s *Server) ownHost(header string) bool {
	host, port, err := net.SplitHostPort(header)
	if err != nil {
		host, port = header, "80"
	}
	listen, ok := s.Listen.(*net.TCPAddr)
	if !ok || port != fmt.Sprint(listen.Port) {
		return false
	}
	ip := net.ParseIP(strings.Trim(host, "[]"))
	return strings.EqualFold(host, "localhost") || ip != nil && (ip.Equal(listen.IP) || ip.IsLoopback() && listen.IP.IsLoopback())
}

const cookie = "tare_session"

// admitted checks the token in a header, or once in the address, which begins a session with a cookie.
func (s *Server) admitted(w http.ResponseWriter, r *http.Request) bool {
	if s.Token == "" || same(s.Token, strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ")) {
		return true
	}
	if c, err := r.Cookie(cookie); err == nil && same(s.session, c.Value) {
		return true
	}
	if query := r.URL.Query(); same(s.Token, query.Get("token")) {
		http.SetCookie(w, &http.Cookie{Name: cookie, Value: s.session, Path: "/", MaxAge: int(sessionTime.Seconds()), HttpOnly: true, SameSite: http.SameSiteStrictMode})
		query.Del("token")
		to := url.URL{Path: r.URL.Path, RawQuery: query.Encode()}
		http.Redirect(w, r, to.RequestURI(), http.StatusSeeOther)
		return false
	}
	w.Header().Set("WWW-Authenticate", "Bearer")
	http.Error(w, "a token is needed: add ?token=… to the address once", http.StatusUnauthorized)
	return false
}

// same compares a secret in a time that does not depend on it.
func same(secret, given string) bool {
	a, b := sha256.Sum256([]byte(secret)), sha256.Sum256([]byte(given))
	return subtle.ConstantTimeCompare(a[:], b[:]) == 1
}

// handler shows a page, or its error.
func handler(show func(http.ResponseWriter, *http.Request) error) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		err := show(w, r)
		if err == nil || r.Context().Err() != nil {
			return
		}
		problem, ok := err.(*problem)
		if !ok {
			problem = newProblem(http.StatusInternalServerError, err)
		}
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		w.WriteHeader(problem.status)
		_ = layouts.ExecuteTemplate(w, "problem.html", problem)
	})
}

// run shows the page of a run, or the run under way.
func (s *Server) run(w http.ResponseWriter, r *http.Request) error {
	of, err := s.find(r.PathValue("id"))
	if err != nil {
		return err
	}
	content, err := s.pageOf(w, r, of)
	if err != nil {
		return err
	}
	asPage(w)
	_, err = io.WriteString(w, withHome(string(content)))
	return err
}

// pageOf makes a page once for each content of a directory.
func (s *Server) pageOf(w http.ResponseWriter, r *http.Request, of run) ([]byte, error) {
	stamp := of.stamp()
	s.mu.Lock()
	content := s.pages[stamp]
	s.mu.Unlock()
	if content != nil && stamp != "" {
		return content, nil
	}
	done, err := s.turn(r.Context(), w)
	if err != nil {
		return nil, err
	}
	defer done()
	var b strings.Builder
	if err := s.Page(&b, of.path); err != nil {
		return nil, newProblem(http.StatusUnprocessableEntity, err)
	}
	content = []byte(b.String())
	if stamp != "" {
		s.mu.Lock()
		if len(s.pages) >= mostPages {
			clear(s.pages)
		}
		s.pages[stamp] = content
		s.mu.Unlock()
	}
	return content, nil
}

func (s *Server) compare(w http.ResponseWriter, r *http.Request) error {
	base, err := s.find(r.URL.Query().Get("base"))
	if err != nil {
		return err
	}
	next, err := s.find(r.URL.Query().Get("new"))
	if err != nil {
		return err
	}
	done, err := s.turn(r.Context(), w)
	if err != nil {
		return err
	}
	defer done()
	var b strings.Builder
	err = s.Compare(&b, base.path, next.path)
	done()
	if err != nil {
		return newProblem(http.StatusUnprocessableEntity, err)
	}
	asPage(w)
	_, err = io.WriteString(w, withHome(b.String()))
	return err
}

// withHome adds a link to the list of runs to a page, which is made without a server.
func withHome(page string) string {
	return strings.Replace(page, "<body>\n", "<body>\n<p><a href=\"/\">All runs</a></p>\n", 1)
}

// turn waits until fewer pages are being made. A page may take longer than the time of a write, which begins afterwards.
func (s *Server) turn(ctx context.Context, w http.ResponseWriter) (done func(), err error) {
	control := http.NewResponseController(w)
	_ = control.SetWriteDeadline(time.Time{})
	end := func() { _ = control.SetWriteDeadline(time.Now().Add(writeTime)) }
	select {
	case s.making <- struct{}{}:
		return sync.OnceFunc(func() { <-s.making; end() }), nil
	case <-ctx.Done():
		end()
		return nil, ctx.Err()
	}
}

// asPage sets the headers of a complete page, which has a stricter policy than the server's own.
func asPage(w http.ResponseWriter) {
	w.Header().Set("Content-Security-Policy", page.Policy()+"; frame-ancestors 'none'")
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
}

// find returns a run by its identifier. It looks the identifier up, and never makes a path of it.
func (s *Server) find(id string) (run, error) {
	runs, err := s.index.runs()
	if err != nil {
		return run{}, err
	}
	for _, of := range runs {
		if of.ID == id {
			if err := of.contained(); err != nil {
				return run{}, newProblem(http.StatusForbidden, err)
			}
			return of, nil
		}
	}
	return run{}, newProblem(http.StatusNotFound, fmt.Errorf("no run %q below the directories of this server", id))
}

const (
	headerTime = 10 * time.Second
	writeTime  = time.Minute
)

// HTTP is the server with limits for slow clients.
func (s *Server) HTTP() *http.Server {
	return &http.Server{Handler: s, ReadHeaderTimeout: headerTime, ReadTimeout: headerTime, WriteTimeout: writeTime, IdleTimeout: writeTime, MaxHeaderBytes: 16 << 10}
}

// sessionTime is how long a browser keeps the cookie. A restart of the server ends it too.
const sessionTime = 12 * time.Hour

// live shows a run under way. One that has ended has its page.
func (s *Server) live(w http.ResponseWriter, r *http.Request) error {
	of, err := s.find(r.PathValue("id"))
	if err != nil {
		return err
	}
	link := (&url.URL{Path: of.ID}).EscapedPath()
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	return layouts.ExecuteTemplate(w, "live.html", struct{ ID, Events, Page string }{of.ID, "/events/" + link, "/run/" + link})
}

// pace is the time between two looks at the directory.
const pace = time.Second

// events sends the state of a run under way as server-sent events, and "end" with its outcome when no more trials follow.
func (s *Server) events(w http.ResponseWriter, r *http.Request) error {
	of, err := s.find(r.PathValue("id"))
	if err != nil {
		return err
	}
	select {
	case s.streams <- struct{}{}:
		defer func() { <-s.streams }()
	default:
		return newProblem(http.StatusServiceUnavailable, errors.New("too many pages show running experiments: close one"))
	}
	d, err := result.Open(of.path)
	if err != nil {
		return newProblem(http.StatusUnprocessableEntity, err)
	}
	defer d.Close()
	w.Header().Set("Content-Type", "text/event-stream")
	w.Header().Set("X-Accel-Buffering", "no")
	out := stream{w: w, control: http.NewResponseController(w)}
	watched := live.NewWatched(d, func(block int) (*answer.Report, error) {
		return answer.Analyze(d, compare.Options{Blocks: block})
	})
	next := time.NewTicker(pace)
	defer next.Stop()
	for {
		writing := result.Writing(of.root.Root, of.name)
		ended, err := watched.Next()
		if err != nil {
			return out.send("problem", err.Error())
		}
		state, err := json.Marshal(watched.Snapshot(time.Now()))
		if err == nil {
			err = out.send("state", string(state))
		}
		if err != nil {
			return err
		}
		if ended || !writing {
			return out.send("end", outcomeOf(d))
		}
		select {
		case <-r.Context().Done():
			return nil
		case <-next.C:
		}
	}
}

// outcomeOf is the state of a run that no process writes: without the trials of its plan it was interrupted.
func outcomeOf(d *result.Dir) string {
	if pending, err := d.Pending(); err != nil || len(pending) > 0 {
		return interrupted
	}
	return finished
}

// stream writes server-sent events.
type stream struct {
	w       http.ResponseWriter
	control *http.ResponseController
	last    string
}

// send sends an event, unless it repeats the last one.
func (s *stream) send(event, data string) error {
	if event == "state" && data == s.last {
		return nil
	}
	s.last = data
	if err := s.control.SetWriteDeadline(time.Now().Add(headerTime)); err != nil && !errors.Is(err, http.ErrNotSupported) {
		return err
	}
	text := "event: " + event + "\n"
	for line := range strings.SplitSeq(data, "\n") {
		text += "data: " + strings.ReplaceAll(line, "\r", " ") + "\n"
	}
	if _, err := fmt.Fprint(s.w, text+"\n"); err != nil {
		return err
	}
	return s.control.Flush()
}

// problem is an error as a page.
type problem struct {
	status               int
	Title, Message, Hint string
}

func newProblem(status int, err error) *problem {
	return &problem{status, http.StatusText(status), printable.Text(err.Error()), printable.Text(hint.Of(err))}
}

func (p *problem) Error() string { return p.Message }
