package session

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/tare-mesh/tare/internal/base/hint"
	"github.com/tare-mesh/tare/internal/experiment"
	"github.com/tare-mesh/tare/internal/experiment/app"
)

// weighLoad is the field load of a file that flags describe.
type weighLoad struct {
	Headers  map[string]string `yaml:"headers,omitempty" json:"headers,omitempty"`
	Requests []weighRequest    `yaml:"requests,omitempty" json:"requests,omitempty"`
}

type weighRequest struct {
	Method string          `yaml:"method,omitempty" json:"method,omitempty"`
	Path   string          `yaml:"path,omitempty" json:"path,omitempty"`
	Body   experiment.Body `yaml:"body,omitempty" json:"body,omitempty"`
}

// Request is the request that flags describe: of every treatment the same.
type Request struct {
	Path    string // with a query, or the gRPC method
	Method  string
	Headers []string
	Body    []byte
	Expect  string // protocol tcp: the whole answer
}

// exchange is the request of protocol tcp.
func (r Request) exchange() app.Exchange {
	if r.Expect == "" {
		return app.Exchange{}
	}
	return app.Exchange{Send: string(r.Body), Expect: r.Expect}
}

// load returns the field load, and the level of the factor route for a request that is only a path.
func (r Request) load(protocol string) (l weighLoad, route []string, err error) {
	for _, line := range r.Headers {
		name, value, ok := strings.Cut(line, ":")
		if !ok {
			return l, nil, hint.Usage(fmt.Errorf("--header %q is not of the form Name: value", line), "write -H 'Host: shop.example'")
		}
		l.header(name, strings.TrimSpace(value))
	}
	switch {
	case protocol == app.TCP:
		if len(r.Body) == 0 || r.Expect == "" {
			return l, nil, hint.Usage(errors.New("--protocol tcp needs a request and its whole answer"), `write --data $'PING\r\n' --expect-body $'+PONG\r\n'`)
		}
		return l, nil, nil
	case r.Expect != "":
		return l, nil, hint.Usage(errors.New("--expect-body is of --protocol tcp"), "write load.checks in an experiment file, for other protocols")
	case r.Method == "" && len(r.Body) == 0:
		if r.Path != "" {
			route = []string{r.Path}
		}
		return l, route, nil
	case protocol != "" && protocol != app.HTTP1 && protocol != app.HTTP2:
		return l, nil, hint.Usage(errors.New("--method and --data are of HTTP"), "write load.requests in an experiment file, which has messages of gRPC, or load.webSocket")
	}
	l.Requests = []weighRequest{{Method: r.Method, Path: r.Path, Body: experiment.Body(r.Body)}}
	if len(r.Body) > 0 && !json.Valid(r.Body) && !l.has("content-type") { // JSON has its own
		l.header("Content-Type", "application/x-www-form-urlencoded") // as curl and tare load
	}
	return l, nil, nil
}

func (l *weighLoad) header(name, value string) {
	if l.Headers == nil {
		l.Headers = map[string]string{}
	}
	l.Headers[name] = value
}

func (l *weighLoad) has(header string) bool {
	for name := range l.Headers {
		if strings.EqualFold(name, header) {
			return true
		}
	}
	return false
}
