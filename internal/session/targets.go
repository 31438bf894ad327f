package session

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/tare-mesh/tare/internal/base/hint"
	"github.com/tare-mesh/tare/internal/base/lists"
	"github.com/tare-mesh/tare/internal/base/regular"
	"github.com/tare-mesh/tare/internal/experiment"
	"github.com/tare-mesh/tare/internal/load"
	"github.com/tare-mesh/tare/internal/load/calls"
)

// MaxTargets bounds a file of requests, in bytes.
const MaxTargets = 1 << 30

// Targets reads load.targets of an experiment. Headers that usually have a
// secret are left out: a record would contain their values. notef gets a note about omitted headers.
func Targets(path string, notef func(format string, args ...any)) ([]experiment.Request, error) {
	file, err := regular.Open(path, MaxTargets)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	read, err := calls.Open(file, path)
	if err != nil {
		return nil, err
	}
	var all []experiment.Request
	var omitted []string // headers
	first := ""
	for _, call := range read {
		if call.Weight < 1 || call.Weight > load.MaxWeight {
			return nil, hint.New("write 1 to 1000, or remove the request", "%s: a request of %s has the weight %d", path, call.URL, call.Weight)
		}
		origin, rest := load.SplitOrigin(call.URL)
		if first = cmp.Or(first, origin); origin != first {
			return nil, hint.New("keep the requests of one host", "%s has requests to %s and %s, and an application has one entry", path, first, origin)
		}
		rest, _, _ = strings.Cut(rest, "#")
		if !strings.HasPrefix(rest, "/") {
			rest = "/" + rest
		}
		r := experiment.Request{Name: call.Name, Method: call.Method, Path: rest, Body: experiment.Body(call.Body), Weight: call.Weight}
		for _, h := range call.Headers {
			name, value, _ := strings.Cut(h, ":")
			value = strings.TrimSpace(value)
			if strings.Contains(value, "${file:") { // the file of requests may be another person's
				return nil, hint.New("write the header in load.headers or load.requests", "%s: header %s would send a file of this machine: %.80s", path, name, value)
			}
			if SecretHeader(name) && !strings.Contains(value, "${") {
				omitted = lists.Add(omitted, name)
				continue
			}
			if r.Headers == nil {
				r.Headers = map[string]string{}
			}
			if before, ok := r.Headers[name]; ok {
				value = fmt.Sprintf("%s, %s", before, value)
			}
			r.Headers[name] = value
		}
		all = append(all, r)
	}
	if omitted != nil {
		notef("headers %s of %s left out, because records would contain them: write ${env:NAME} in vegeta's targets or JSON lines", strings.Join(omitted, ", "), path)
	}
	return all, nil
}

// SecretHeader reports whether a header usually has a secret.
func SecretHeader(name string) bool {
	return slices.ContainsFunc([]string{"auth", "token", "key", "secret", "cookie", "password"}, func(part string) bool {
		return strings.Contains(strings.ToLower(name), part)
	})
}
