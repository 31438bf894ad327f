// Package app describes applications under test: topologies of services that
// call one another. A topology is a YAML file in topologies/ (embedded), or part
// of the experiment file. Both have the same type and strict decoder.
package app

import (
	"cmp"
	"fmt"
	"math"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/tare-mesh/tare/internal/base/hint"
	"github.com/tare-mesh/tare/internal/base/lists"
	"github.com/tare-mesh/tare/internal/base/strict"
	"github.com/tare-mesh/tare/internal/experiment/manifest"
)

// Topology is a set of services and the one that receives the load.
type Topology struct {
	Name        string    `yaml:"name" json:"name"`
	Description string    `yaml:"description,omitempty" json:"description,omitempty"`
	Entry       string    `yaml:"entry,omitempty" json:"entry"` // service that receives the load, by default the first
	Services    []Service `yaml:"services" json:"services"`
	// Chart installs them, on a cluster. Nil means that tare-agent runs them.
	Chart  *Chart `yaml:"chart,omitempty" json:"chart,omitempty"`
	Source `yaml:",inline"`
	// Changes of the objects by a variant.
	Changes ObjectChanges `yaml:"-" json:"-"`
}

// Source is the place of Kubernetes objects that run the services, on a cluster.
type Source struct {
	// Manifests are files, and directories with files.
	Manifests []string `yaml:"manifests,omitempty" json:"manifests,omitempty"`
	// Namespace has the running application, which is copied.
	Namespace string `yaml:"namespace,omitempty" json:"namespace,omitempty"`
	// InPlace measures the application of Namespace where it runs: it is enrolled, restarted and put back in each trial.
	InPlace bool `yaml:"inPlace,omitempty" json:"inPlace,omitempty"`
	// Objects are read from the source for a run. Nil means not read.
	Objects *manifest.Set `yaml:"-" json:"-"`
}

func (s Source) IsSet() bool { return len(s.Manifests) > 0 || s.Namespace != "" }

// Field returns the field of an experiment file that names the source.
func (s Source) Field() string {
	if s.Namespace != "" {
		return "application.namespace"
	}
	return "application.manifests"
}

// Foreign reports whether others' objects run the services: from a chart, manifests or a namespace.
func (t Topology) Foreign() bool { return t.Chart != nil || t.IsSet() }

// CallsUnknown reports whether calls between services may be missing: objects do not list them.
func (t Topology) CallsUnknown() bool {
	return t.IsSet() && len(t.Services) > 1 && !slices.ContainsFunc(t.Services, func(s Service) bool { return len(s.Calls) > 0 })
}

// HasCommand reports whether tare starts a program of the user.
func (t Topology) HasCommand() bool {
	return slices.ContainsFunc(t.Services, func(s Service) bool { return len(s.Command) > 0 })
}

// BesideNames lists the names of the processes beside the programs of the user.
func (t Topology) BesideNames() (names []string) {
	for _, s := range t.Services {
		for _, p := range s.Beside {
			names = append(names, p.Name)
		}
	}
	return names
}

// AnswerSize is the length of the entry's responses in bytes, if all have the same and tare determines it, or
// else negative. otherwise is the treatment's.
func (t Topology) AnswerSize(entry Service, otherwise int64) int64 {
	if t.Foreign() {
		return -1
	}
	return entry.AnswerSize(otherwise)
}

// LoadName is the name of the load generator among the services.
const LoadName = "load"

// Service is one service of a topology. Its replicas are alike.
type Service struct {
	Name     string `yaml:"name" json:"name"`
	Replicas int    `yaml:"replicas,omitempty" json:"replicas,omitempty"` // 0: the treatment's replicas
	// Protocol of its requests. Empty means the treatment's.
	Protocol string `yaml:"protocol,omitempty" json:"protocol,omitempty"`
	// Port of its Service, where others' objects run it. 0 means a chart's chart.port.
	Port     int `yaml:"port,omitempty" json:"port,omitempty"`
	Own      `yaml:",inline"`
	Behavior `yaml:",inline"`
	// Calls are made before the service answers. Any that fails makes the response fail.
	Calls []Call `yaml:"calls,omitempty" json:"calls,omitempty"`
}

// Call is a request a service makes to another for every request it receives,
// or, without a service, a step that only waits.
type Call struct {
	Service     string `yaml:"service,omitempty" json:"service,omitempty"`
	CallOptions `yaml:",inline"`
}

// ShortForm is the name of the service.
func (c *Call) ShortForm() (any, func()) {
	service := new(string)
	return service, func() { *c = Call{Service: *service} }
}

// EntryName is the name of the service that receives the load, by default the first. "": no services.
func (t Topology) EntryName() string {
	if t.Entry == "" && len(t.Services) > 0 {
		return t.Services[0].Name
	}
	return t.Entry
}

// Edges counts the requests between services that one request at the entry
// causes, including the entry's own: 1 for a single service, 3 for a chain of
// three. A followed redirect counts as a separate request. A call with a
// probability counts as one call. Retries do not count.
func (t Topology) Edges() int {
	var count func(name string, depth int) int
	count = func(name string, depth int) int {
		if depth > len(t.Services) {
			return 0 // cyclic, which Validate refuses
		}
		n := 1
		s, ok := t.Service(name)
		if !ok {
			return n
		}
		for _, c := range s.Calls {
			if c.Service != "" {
				n += count(c.Service, depth+1) + t.Redirected(c)
			}
		}
		return n
	}
	return count(t.Entry, 0)
}

// Waits is the mean time that an answer of the entry waits: the declared times of services and
// before calls. Calls alongside each other count one after another. The topology may be invalid.
func (t Topology) Waits() time.Duration {
	calls := 0
	var sum func(name string, depth int) time.Duration
	sum = func(name string, depth int) time.Duration {
		s, ok := t.Service(name)
		if calls++; !ok || depth > len(t.Services) || calls > maxCallsPerHit {
			return 0
		}
		all := s.Time.Mean()
		for _, c := range s.Calls {
			all += c.Wait.Mean()
			if c.Service != "" {
				all += sum(c.Service, depth+1)
			}
		}
		return all
	}
	return sum(t.Entry, 0)
}

// Redirected counts the redirects of a call before the served request: 1 if the
// callee redirects the requested path.
func (t Topology) Redirected(c Call) int {
	callee, _ := t.Service(c.Service)
	path, _, _ := strings.Cut(c.Path, "?")
	if _, ok := callee.Redirects[path]; ok && c.FollowRedirects {
		return 1
	}
	return 0
}

// Failures are the statuses with which a service fails requests on purpose: by its errors, by its rate limit and by
// failed calls. The topology may be invalid.
func (t Topology) Failures(service string) []string { return t.failures(service, 0) }

func (t Topology) failures(service string, depth int) (statuses []string) {
	s, ok := t.Service(service)
	if !ok || depth > len(t.Services) {
		return nil
	}
	if s.Errors != nil && s.Errors.Ratio > 0 {
		statuses = append(statuses, strconv.Itoa(cmp.Or(s.Errors.Status, http.StatusInternalServerError)))
	}
	if s.RateLimit > 0 {
		statuses = append(statuses, strconv.Itoa(http.StatusTooManyRequests))
	}
	if slices.ContainsFunc(s.Calls, func(c Call) bool { return len(t.failures(c.Service, depth+1)) > 0 }) {
		statuses = append(statuses, strconv.Itoa(cmp.Or(s.FailedCallStatus, http.StatusBadGateway)))
	}
	return statuses
}

func (t Topology) Service(name string) (Service, bool) {
	return lists.First(t.Services, func(s Service) bool { return s.Name == name })
}

// AnswerSize is the length of the service's answers in bytes where all have the
// same, or negative where they have not. otherwise is the treatment's.
func (s Service) AnswerSize(otherwise int64) int64 {
	if s.IsOwn() {
		return -1
	}
	if s.ResponseSize.IsZero() {
		return otherwise
	}
	if n, ok := s.ResponseSize.Fixed(); ok {
		return n
	}
	return -1
}

// YAML renders the topology as a file that [Load] reads.
func (t Topology) YAML() ([]byte, error) {
	b, err := yaml.Marshal(t)
	if err != nil {
		return nil, fmt.Errorf("render topology %s: %w", t.Name, err)
	}
	return b, nil
}

// Speaks returns why the services cannot serve a load of a protocol. The topology alone is valid.
func (t Topology) Speaks(protocol string) error {
	if t.Foreign() {
		return nil
	}
	services := slices.Clone(t.Services)
	for i, s := range services {
		services[i].Protocol = t.ProtocolOf(s, protocol)
	}
	t.Services = services
	first := firstMistake{t: t}
	t.Validate(&first, "")
	return first.err
}

// ProtocolOf is the protocol of a service under a load of a protocol. Only the entry has WebSocket.
func (t Topology) ProtocolOf(s Service, load string) string {
	if load == WebSocket && s.Name != t.EntryName() {
		load = HTTP1
	}
	return cmp.Or(s.Protocol, load, HTTP1)
}

// firstMistake is a [Reporter] that names the service instead of its index.
type firstMistake struct {
	t   Topology
	err error
}

func (f *firstMistake) Sound(string) bool { return f.err == nil }

func (f *firstMistake) Report(path, message, advice string) {
	if f.err != nil {
		return
	}
	var i int
	if n, _ := fmt.Sscanf(path, "services[%d]", &i); n == 1 {
		message = "service " + f.t.Services[i].Name + ": " + message
	}
	f.err = hint.New(advice, "%s", message)
}

// Protocols of services. An HTTP service supports HTTP/1.1 and, with prior
// knowledge, HTTP/2 on one port: its clients choose.
const (
	HTTP1 = "http1"
	HTTP2 = "http2"
	GRPC  = "grpc"
	TCP   = "tcp"
	// WebSocket is a protocol of the entry alone: the load sends messages on upgraded connections. Its
	// calls and other services use HTTP/1.1.
	WebSocket = "websocket"
)

func Protocols() []string { return []string{HTTP1, HTTP2, GRPC, TCP, WebSocket} }

// GRPCMethod is the gRPC method of a service. Request and response are messages
// with bytes as field 1.
const GRPCMethod = "/tare.v1.Service/Call"

// GRPCPayload is the number of the only field of these messages, of type bytes.
const GRPCPayload = 1

// AloneHeader makes a service send the calls of a request on new connections, as
// the request itself was. "Connection: close" means the same in HTTP/1.1, but
// proxies do not forward it, and HTTP/2 does not have it.
const AloneHeader = "tare-alone"

// AnswersHeader in a WebSocket handshake has the number of messages, each of the response size,
// that answer a message. 0 is none. Without it the answer is the message itself.
const AnswersHeader = "tare-answers"

// Behavior is the work of a service for each request, besides its calls. All of
// it can be changed while the service runs.
type Behavior struct {
	// ResponseSize is the length of the response's body. Without one, it is the treatment's.
	ResponseSize Sizes `yaml:"responseSize,omitempty" json:"responseSize,omitzero"`
	// Status of every response. 0 means 200. A gRPC service uses the nearest code.
	Status int `yaml:"status,omitempty" json:"status,omitempty"`
	// Time is waited before any other work.
	Time Times `yaml:"time,omitempty" json:"time,omitzero"`
	// Delay is waited in addition to Time, and faults set it.
	Delay Times `yaml:"delay,omitempty" json:"delay,omitzero"`
	// CPU time burnt for each request.
	CPU Duration `yaml:"cpu,omitempty" json:"cpu,omitzero"`
	// Memory is allocated while it is configured, with every page touched.
	Memory Size `yaml:"memory,omitempty" json:"memory,omitempty"`
	// Errors are injected failures. They make no calls.
	Errors *Errors `yaml:"errors,omitempty" json:"errors,omitempty"`
	// RateLimit bounds the requests served per second. The response to others is
	// 429. 0 means no limit.
	RateLimit float64 `yaml:"rateLimit,omitempty" json:"rateLimit,omitempty"`
	// FailedCallStatus is the status of the response after a failed call. 0 means 502.
	FailedCallStatus int `yaml:"failedCallStatus,omitempty" json:"failedCallStatus,omitempty"`
	// Redirects respond to requests for a path with 301 and another path.
	Redirects map[string]string `yaml:"redirects,omitempty" json:"redirects,omitempty"`
}

// Errors is a share of responses that fail.
type Errors struct {
	Ratio  float64 `yaml:"ratio" json:"ratio"`                       // 0..1
	Status int     `yaml:"status,omitempty" json:"status,omitempty"` // 0 is 500
}

// CallOptions are options of a call. Calls are made one after another, except
// calls with Alongside.
type CallOptions struct {
	// Protocol of the call. Empty means the callee's.
	Protocol string `yaml:"protocol,omitempty" json:"protocol,omitempty"`
	// Path of the HTTP request. Empty means "/".
	Path string `yaml:"path,omitempty" json:"path,omitempty"`
	// Alongside makes the call at the same time as the one before it.
	Alongside bool `yaml:"alongside,omitempty" json:"alongside,omitempty"`
	// Wait is waited before the call.
	Wait Times `yaml:"wait,omitempty" json:"wait,omitzero"`
	// Probability of the call, 0..1. Absent means always.
	Probability *float64 `yaml:"probability,omitempty" json:"probability,omitempty"`
	// RequestSize is the length of the request's body. Without one, it is 0.
	RequestSize Sizes `yaml:"requestSize,omitempty" json:"requestSize,omitzero"`
	// Headers are added to the request. Trace headers are passed on besides.
	Headers map[string]string `yaml:"headers,omitempty" json:"headers,omitempty"`
	// Timeout of one attempt. 0 means none.
	Timeout Duration `yaml:"timeout,omitempty" json:"timeout,omitzero"`
	// Retries bounds the retries of a failed call.
	Retries int `yaml:"retries,omitempty" json:"retries,omitempty"`
	// NewConnection opens a connection for every call and closes it after.
	NewConnection bool `yaml:"newConnection,omitempty" json:"newConnection,omitempty"`
	// FollowRedirects follows redirects. Otherwise a redirect is a failed call.
	FollowRedirects bool `yaml:"followRedirects,omitempty" json:"followRedirects,omitempty"`
}

// Duration is a time.Duration written as Go writes it: "30s", "1m30s", "250ms".
type Duration time.Duration

// Size is a number of bytes, written as a number or with a unit: 512, "1KiB", "1MB".
type Size int64

// String writes the duration as Go does, without the zero parts: "1m30s", "5m".
func (d Duration) String() string {
	s := time.Duration(d).String()
	if strings.HasSuffix(s, "m0s") {
		s = strings.TrimSuffix(s, "0s")
	}
	if strings.HasSuffix(s, "h0m") {
		s = strings.TrimSuffix(s, "0m")
	}
	return s
}

func (d Duration) MarshalText() ([]byte, error) { return []byte(d.String()), nil }

func (d *Duration) UnmarshalText(text []byte) error { return d.UnmarshalScalar(string(text)) }

func (Duration) Wants() string { return "a duration such as 30s, 1m30s or 250ms" }

// UnmarshalScalar reads a duration with its unit. A bare 0 needs none.
func (d *Duration) UnmarshalScalar(text string) error {
	v, err := time.ParseDuration(text)
	if err != nil {
		if _, err := strict.Number(text); err == nil {
			return fmt.Errorf("found %.40s without a unit, expected %s", text, d.Wants())
		}
		return fmt.Errorf("found %.40q, expected %s", text, d.Wants())
	}
	*d = Duration(v)
	return nil
}

// sizeUnits are the units of a [Size], the longest names first.
var sizeUnits = []struct {
	name  string
	bytes int64
}{
	{"KiB", 1 << 10}, {"MiB", 1 << 20}, {"GiB", 1 << 30},
	{"kB", 1e3}, {"KB", 1e3}, {"MB", 1e6}, {"GB", 1e9}, {"B", 1},
}

// String writes the size exactly, in the largest binary unit that does.
func (s Size) String() string {
	for _, u := range []struct {
		name  string
		bytes Size
	}{{"GiB", 1 << 30}, {"MiB", 1 << 20}, {"KiB", 1 << 10}} {
		if s != 0 && s%u.bytes == 0 {
			return strconv.FormatInt(int64(s/u.bytes), 10) + u.name
		}
	}
	return strconv.FormatInt(int64(s), 10)
}

func (s Size) MarshalYAML() (any, error) {
	if text := s.String(); strings.HasSuffix(text, "B") {
		return text, nil
	}
	return int64(s), nil
}

func (Size) Wants() string { return "a size such as 512, 1KiB or 1MB" }

// UnmarshalScalar reads a number of bytes, with a unit or without.
func (s *Size) UnmarshalScalar(text string) error {
	wrong := fmt.Errorf("found %.40q, expected %s", text, s.Wants())
	number, unit := strings.TrimSpace(text), int64(1)
	for _, u := range sizeUnits {
		if n, ok := strings.CutSuffix(number, u.name); ok {
			number, unit = strings.TrimSpace(n), u.bytes
			break
		}
	}
	f, err := strict.Number(number)
	if err != nil {
		return wrong
	}
	bytes := f * float64(unit)
	switch {
	case bytes != math.Trunc(bytes):
		return fmt.Errorf("%.40s is not a whole number of bytes", text)
	case math.Abs(bytes) > 1<<53:
		return fmt.Errorf("%.40s is too large", text)
	}
	*s = Size(bytes)
	return nil
}
