package runner

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/tare-mesh/tare/internal/experiment"
	"github.com/tare-mesh/tare/internal/load"
)

// addRequests sends the kinds of requests to each of the roots, in place of p's targets.
// Headers keep their placeholders.
func addRequests(p *load.Profile, requests []experiment.Request, roots []string) {
	p.Targets = roots
	if len(requests) == 0 {
		return
	}
	p.Targets, p.ExpectSize = nil, -1
	for _, root := range roots {
		for i := range requests {
			target, call := callOf(&requests[i], root)
			p.Targets, p.Calls = append(p.Targets, target), append(p.Calls, call)
			p.Weights = append(p.Weights, max(1, requests[i].Weight))
		}
	}
}

// callOf is a request to a root, which is a URL that the platform made.
func callOf(r *experiment.Request, root string) (target string, c load.Call) {
	c = load.Call{Name: r.Name, Method: r.Method}
	path := r.Path
	switch {
	case r.GRPC != "":
		path = "/" + strings.TrimPrefix(r.GRPC, "/")
		c.Body = []byte{} // the empty message
		if c.Name == "" {
			c.Name = path[1:]
		}
	case path == "":
		path = "/"
	}
	for name, value := range r.Headers {
		c.Headers = append(c.Headers, name+": "+value)
	}
	slices.Sort(c.Headers)
	if r.Body != "" {
		c.Body = []byte(r.Body)
		if c.Method == "" {
			c.Method = http.MethodPost
		}
		if r.GRPC == "" && json.Valid(c.Body) && !hasContentType(r.Headers) {
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

func hasContentType(headers map[string]string) bool {
	for name := range headers {
		if strings.EqualFold(name, "content-type") {
			return true
		}
	}
	return false
}

// withSecrets is p with the placeholders of its headers replaced. Only the generator gets it.
func withSecrets(p load.Profile) (load.Profile, error) {
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

func replaced(headers []string) ([]string, error) {
	var lines []string
	for _, line := range headers {
		name, value, _ := strings.Cut(line, ": ")
		value, err := experiment.WithSecrets(value)
		if err != nil {
			return nil, fmt.Errorf("load.requests: header %s: %w", name, err)
		}
		lines = append(lines, name+": "+value)
	}
	return lines, nil
}

// CheckSecrets reports every placeholder that cannot be replaced, before the first trial.
func CheckSecrets(x *experiment.Experiment) error {
	seen := map[string]bool{}
	var errs []error
	for _, r := range x.Load.Requests {
		for name, value := range r.Headers {
			if line := name + ": " + value; !seen[line] {
				seen[line] = true
				_, err := replaced([]string{line})
				errs = append(errs, err)
			}
		}
	}
	return errors.Join(errs...)
}
