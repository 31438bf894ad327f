package runner

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/tare-mesh/tare/internal/experiment"
	"github.com/tare-mesh/tare/internal/experiment/app"
	"github.com/tare-mesh/tare/internal/load"
)

// addRequests sends the kinds of requests to each of the roots, in place of p's targets.
// Headers keep their placeholders.
func addRequests(p *load.Profile, l *experiment.Load, roots []string) {
	p.Targets, p.Headers, p.Stream = roots, headerLines(l.Headers), l.Stream
	requests := l.Requests
	if len(requests) == 0 {
		return
	}
	p.Targets, p.ExpectSize, p.Headers = nil, -1, nil
	for _, root := range roots {
		for i := range requests {
			r := requests[i]
			r.Headers = replacing(l.Headers, r.Headers)
			target, call := callOf(&r, root)
			p.Targets, p.Calls = append(p.Targets, target), append(p.Calls, call)
			p.Weights = append(p.Weights, max(1, requests[i].Weight))
		}
	}
	addStream(p, &requests[0])
}

// WithRequests is a profile that sends the requests of an experiment to the roots of an entry, without placeholders in its headers.
func WithRequests(p load.Profile, l *experiment.Load, entry app.Service, roots []string) (load.Profile, error) {
	addRequests(&p, l, roots)
	addExchange(&p, entry)
	return withSecrets(p)
}

// addExchange sends the request of a program with protocol tcp.
func addExchange(p *load.Profile, entry app.Service) {
	if x := entry.Exchange; p.Protocol == app.TCP && x.Send != "" {
		p.Body, p.Answer, p.Until, p.RequestSize = []byte(x.Send), []byte(x.Expect), []byte(x.Until), 0
		if o := x.Opening; o != nil {
			p.Opening = &load.Exchange{Send: []byte(o.Send), Expect: []byte(o.Expect), Until: []byte(o.Until)}
		}
	}
}

// addWebSocket sets the messages of p, and the answers of tare's own service. A program of the user has answers of its own.
func addWebSocket(p *load.Profile, w experiment.WebSocket, entry app.Service) {
	p.WebSocket = &load.WebSocket{Answer: cmp.Or(w.Answer, load.AnswerEcho), Messages: w.Messages}
	if w.Message != "" {
		p.Body, p.RequestSize = []byte(w.Message), 0
	}
	if entry.IsOwn() {
		return
	}
	switch p.WebSocket.Answer {
	case load.AnswerMessage:
		p.Headers = append(p.Headers, fmt.Sprintf("%s: %d", app.AnswersHeader, max(1, w.Messages)))
	case load.AnswerPong:
		p.Headers = append(p.Headers, app.AnswersHeader+": 0")
	}
}

// addStream makes the calls of p streams. A stream is the only request.
func addStream(p *load.Profile, r *experiment.Request) {
	p.GRPCStream = r.Stream == experiment.StreamServer || r.Stream == experiment.StreamBoth
	p.RoundTrips = r.Stream == experiment.StreamBoth
	for _, m := range r.Messages {
		p.Messages = append(p.Messages, []byte(m))
	}
}

// callOf is a request to a root, which is a URL that the platform made.
func callOf(r *experiment.Request, root string) (target string, c load.Call) {
	c = load.Call{Name: r.Name, Method: r.Method}
	path := r.Path
	switch {
	case r.GRPC != "":
		path = "/" + strings.TrimPrefix(r.GRPC, "/")
		if len(r.Messages) == 0 {
			c.Body = []byte{} // the empty message
		}
		if c.Name == "" {
			c.Name = path[1:]
		}
	case path == "":
		path = "/"
	}
	c.Headers = headerLines(r.Headers)
	if r.Body != "" {
		c.Body = []byte(r.Body)
		c.Method = cmp.Or(c.Method, http.MethodPost)
		if r.GRPC == "" && json.Valid(c.Body) && !hasHeader(r.Headers, "content-type") {
			c.Headers = append(c.Headers, "Content-Type: application/json")
		}
	}
	at, err := url.Parse(root)
	if err != nil {
		return root, c // the profile's validation reports it
	}
	wanted, err := url.ParseRequestURI(path)
	if err != nil {
		return root + path, c
	}
	at.Path, at.RawPath, at.RawQuery, at.ForceQuery = wanted.Path, wanted.RawPath, wanted.RawQuery, wanted.ForceQuery
	return at.String(), c
}

// replacing returns the headers of all requests, with the ones that a request sets itself in place.
func replacing(all, own map[string]string) map[string]string {
	merged := maps.Clone(own)
	for name, value := range all {
		if !hasHeader(own, name) {
			if merged == nil {
				merged = map[string]string{}
			}
			merged[name] = value
		}
	}
	return merged
}

func hasHeader(headers map[string]string, wanted string) bool {
	for name := range headers {
		if strings.EqualFold(name, wanted) {
			return true
		}
	}
	return false
}

// withSecrets is p with the placeholders of its headers replaced. Only the generator gets it.
func withSecrets(p load.Profile) (load.Profile, error) {
	var err error
	if p.Headers, err = replaced(p.Headers); err != nil {
		return p, err
	}
	p.Calls = slices.Clone(p.Calls)
	for i := range p.Calls {
		headers, err := replaced(p.Calls[i].Headers)
		if err != nil {
			return p, err
		}
		p.Calls[i].Headers = headers
	}
	return p, nil
}

// CheckSecrets reports every placeholder that cannot be replaced, before the first trial.
func CheckSecrets(x *experiment.Experiment) error {
	seen := map[string]bool{}
	var errs []error
	lines := headerLines(x.Load.Headers)
	for _, r := range x.Load.Requests {
		lines = append(lines, headerLines(r.Headers)...)
	}
	for _, line := range lines {
		if !seen[line] {
			seen[line] = true
			_, err := replaced([]string{line})
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

// headerLines are headers as lines of a profile, sorted.
func headerLines(headers map[string]string) (lines []string) {
	for name, value := range headers {
		lines = append(lines, name+": "+value)
	}
	slices.Sort(lines)
	return lines
}

func replaced(headers []string) ([]string, error) {
	var lines []string
	for _, line := range headers {
		name, value, _ := strings.Cut(line, ": ")
		value, err := experiment.WithSecrets(value)
		if err != nil {
			return nil, fmt.Errorf("load: header %s: %w", name, err)
		}
		lines = append(lines, name+": "+value)
	}
	return lines, nil
}
