package app

import (
	"embed"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/tare-mesh/tare/internal/base/lists"
	"github.com/tare-mesh/tare/internal/base/strict"
)

func Names() []string {
	return lists.Map(Builtin(), func(t Topology) string { return t.Name })
}

//go:embed topologies/*.yaml
var embedded embed.FS

// Builtin lists the topologies that come with tare, sorted by name.
func Builtin() []Topology {
	names, err := embedded.ReadDir("topologies")
	if err != nil {
		return nil // cannot be: the directory is embedded
	}
	var all []Topology
	for _, f := range names {
		t, err := builtin(strings.TrimSuffix(f.Name(), ".yaml"))
		if err == nil { // a test loads every one
			all = append(all, t)
		}
	}
	return all
}

// Load returns an embedded topology, or reads a file if the argument
// has a slash or ends in .yaml. Mistakes in a file are [strict.Problems].
func Load(nameOrPath string) (Topology, error) {
	if !IsFile(nameOrPath) {
		return builtin(nameOrPath)
	}
	data, err := strict.ReadFile(nameOrPath)
	if err != nil {
		return Topology{}, err
	}
	return Decode(nameOrPath, data)
}

// IsFile reports whether a topology is a path rather than a name.
func IsFile(nameOrPath string) bool {
	return strings.ContainsAny(nameOrPath, `/\`) || strings.HasSuffix(nameOrPath, ".yaml") || strings.HasSuffix(nameOrPath, ".yml")
}

func builtin(name string) (Topology, error) {
	file := path.Join("topologies", name+".yaml")
	data, err := embedded.ReadFile(file)
	if err != nil {
		return Topology{}, fmt.Errorf("unknown topology %q", name)
	}
	return Decode(file, data)
}

// Decode reads a topology, fills in its defaults and validates it. The error is a
// [strict.Problems].
func Decode(name string, data []byte) (Topology, error) {
	var t Topology
	doc, err := strict.Parse(name, data)
	if err != nil {
		return t, err
	}
	doc.Decode(&t)
	if t.Name == "" && doc.Sound("name") {
		doc.Report("name", "no name is given", "add name: my-topology")
	} else if !IsLabel(t.Name) && doc.Sound("name") {
		doc.Report("name", notLabel(t.Name), labelHint)
	}
	t.Validate(doc, "")
	if err := doc.Err(); err != nil {
		return Topology{}, err
	}
	return t.Default(), nil
}

// Default returns the topology with its defaults filled in: the entry.
func (t Topology) Default() Topology {
	t.Entry = t.EntryName()
	return t
}

// Reporter receives mistakes by path.
type Reporter interface {
	Report(path, message, hint string)
	Sound(path string) bool
}

const (
	MaxServices    = 1000
	maxReplicas    = 1000
	maxCallsPerHit = 10_000
)

// Validate reports mistakes in the entry and the services to r. Paths
// begin with prefix, e.g. "application." for a topology inside an experiment.
func (t Topology) Validate(r Reporter, prefix string) {
	v := validation{checks{r, prefix}, t}
	if !r.Sound(strings.TrimSuffix(prefix, ".")) && !r.Sound(prefix+"services") && len(t.Services) == 0 {
		return
	}
	if len(t.Services) > MaxServices {
		v.report("services", fmt.Sprintf("%d services, more than %d", len(t.Services), MaxServices), "")
		return
	}
	v.services()
	v.entry()
	v.chart()
	v.foreign()
	if r.Sound(prefix+"services") && v.acyclic() {
		v.work()
	}
}

type validation struct {
	checks
	t Topology
}

func (v validation) services() {
	if len(v.t.Services) == 0 {
		v.report("services", "the list is empty", "an application needs at least one service")
	}
	first := map[string]int{}
	names := v.names()
	for i, s := range v.t.Services {
		at := fmt.Sprintf("services[%d]", i)
		before, twice := first[s.Name]
		switch {
		case s.Name == "":
			v.report(at+".name", "no name is given", "")
		case !IsLabel(s.Name):
			v.report(at+".name", notLabel(s.Name), labelHint)
		case s.Name == LoadName:
			v.report(at+".name", fmt.Sprintf("%q is the name of the load generator", LoadName), "choose another name")
		case twice:
			v.report(at+".name", fmt.Sprintf("%q is already the name of services[%d]", s.Name, before), "")
		default:
			first[s.Name] = i
		}
		within(v.checks, at, "replicas", s.Replicas)
		v.protocol(at+".protocol", s.Protocol, Protocols())
		v.own(at, s)
		v.behavior(at, s.Behavior)
		v.calls(at, s, names)
	}
}

func (v validation) calls(at string, s Service, names []string) {
	if s.Protocol == TCP && len(s.Calls) > 0 {
		v.report(at+".calls", "a tcp service cannot call others", "remove the calls, or use protocol http1")
	}
	for j, c := range s.Calls {
		path := fmt.Sprintf("%s.calls[%d]", at, j)
		v.options(path, c.CallOptions, j)
		switch {
		case !v.r.Sound(v.prefix + path + ".service"): // spares the search for the nearest name
		case c.Service == "" && c.Wait.IsZero():
			v.report(path+".service", "no service is named", "a step that only waits has a wait")
		case c.Service != "" && !slices.Contains(names, c.Service):
			v.report(path+".service", fmt.Sprintf("there is no service %q", c.Service), strict.DidYouMean(c.Service, names))
		default:
			v.speaks(path, c)
		}
	}
}

// speaks reports a call by a protocol that its callee does not support.
func (v validation) speaks(at string, c Call) {
	callee, ok := v.t.Service(c.Service)
	isHTTP := func(p string) bool { return p == HTTP1 || p == HTTP2 }
	switch {
	case !ok:
	case callee.Protocol == TCP || callee.Protocol == WebSocket:
		v.report(at+".service", fmt.Sprintf("%s uses %s, and services call by HTTP or gRPC", callee.Name, callee.Protocol), "write protocol: http1, or remove the call")
	case c.Protocol == "" || callee.Protocol == "" || c.Protocol == callee.Protocol || isHTTP(c.Protocol) && isHTTP(callee.Protocol):
	default:
		v.report(at+".protocol", fmt.Sprintf("%s speaks %s", callee.Name, callee.Protocol), "leave the protocol out: it is the callee's then")
	}
	if ok && callee.Protocol == GRPC && c.Path != "" {
		v.report(at+".path", fmt.Sprintf("%s speaks grpc, and a call by gRPC has no path", callee.Name), "")
	}
}

func (v validation) entry() {
	if v.t.Entry == "" {
		return
	}
	if names := v.names(); !slices.Contains(names, v.t.Entry) {
		v.report("entry", fmt.Sprintf("there is no service %q", v.t.Entry), strict.DidYouMean(v.t.Entry, names))
	}
}

func (v validation) names() []string {
	var names []string
	for _, s := range v.t.Services {
		if s.Name != "" {
			names = append(names, s.Name)
		}
	}
	return names
}

// acyclic reports the first cycle of calls, at the call that closes it.
func (v validation) acyclic() bool {
	index := map[string]int{}
	for i, s := range v.t.Services {
		index[s.Name] = i
	}
	const (
		unseen = iota
		open
		done
	)
	state := make([]int, len(v.t.Services))
	var way []string
	var visit func(i int) bool
	visit = func(i int) bool {
		s := v.t.Services[i]
		state[i], way = open, append(way, s.Name)
		for j, c := range s.Calls {
			next, ok := index[c.Service]
			if !ok {
				continue
			}
			if state[next] == open {
				cycle := append(slices.Clone(way[slices.Index(way, c.Service):]), c.Service)
				v.report(fmt.Sprintf("services[%d].calls[%d].service", i, j),
					"the calls form a cycle: "+strings.Join(cycle, " -> "), "a request would never end; remove one of these calls")
				return false
			}
			if state[next] == unseen && !visit(next) {
				return false
			}
		}
		state[i], way = done, way[:len(way)-1]
		return true
	}
	for i := range v.t.Services {
		if state[i] == unseen && !visit(i) {
			return false
		}
	}
	return true
}

// work bounds the calls of one request. Calls multiply along a topology: thirty
// services that each call the next one twice make a billion calls.
func (v validation) work() {
	index := map[string]Service{}
	for _, s := range v.t.Services {
		index[s.Name] = s
	}
	memo := map[string]int{}
	var count func(name string) int
	count = func(name string) int {
		if n, ok := memo[name]; ok {
			return n
		}
		n := 1
		for _, c := range index[name].Calls {
			n = min(n+count(c.Service), maxCallsPerHit+1)
		}
		memo[name] = n
		return n
	}
	if entry := v.t.EntryName(); count(entry) > maxCallsPerHit {
		v.report("services", fmt.Sprintf("one request at %s causes more than %d calls", entry, maxCallsPerHit), "")
	}
}

const labelHint = "use lower-case letters, digits and -, at most 63, beginning and ending with a letter or digit"

func notLabel(name string) string {
	return fmt.Sprintf("%.80q is not a DNS label", name)
}

// IsLabel reports whether name is a DNS label (RFC 1123): such names become host
// names, directories and identities.
func IsLabel(name string) bool {
	if name == "" || len(name) > 63 || name[0] == '-' || name[len(name)-1] == '-' {
		return false
	}
	return !slices.ContainsFunc([]byte(name), func(c byte) bool { return (c < 'a' || c > 'z') && (c < '0' || c > '9') && c != '-' })
}

// Limits bound the numbers of a service and of its calls, by field. The experiment file's schema has them too.
var Limits = map[string]Limit{
	"replicas":         {High: maxReplicas, hint: "0 uses the factor replicas"},
	"status":           {200, 599, true, ""},
	"failedCallStatus": {200, 599, true, ""},
	"errors.status":    {200, 599, true, ""},
	"errors.ratio":     {High: 1, hint: ratioHint},
	"cpu":              {High: float64(10 * time.Second)},
	"memory":           {High: 64 << 30},
	"rateLimit":        {High: 1e7, hint: "0 is no limit"},
	"probability":      {High: 1, hint: ratioHint},
	"timeout":          {High: float64(MaxTime), hint: "0 is none"},
	"retries":          {High: 100},
}

const ratioHint = "it is a ratio: 0.01 is 1 %"

// Limit is a range with both ends: of times in ns, of sizes in bytes.
type Limit struct {
	Low, High float64
	OrZero    bool // 0 means the default
	hint      string
}

const (
	maxHeaders = 100
	maxText    = 1024 // bytes of a path or of a header's value
)

// checks reports mistakes in the fields that topologies and instances share.
type checks struct {
	r      Reporter
	prefix string
}

func (v checks) behavior(at string, b Behavior) {
	within(v, at, "status", b.Status)
	within(v, at, "failedCallStatus", b.FailedCallStatus)
	within(v, at, "cpu", b.CPU)
	within(v, at, "memory", b.Memory)
	within(v, at, "rateLimit", b.RateLimit)
	if b.Errors != nil {
		within(v, at, "errors.ratio", b.Errors.Ratio)
		within(v, at, "errors.status", b.Errors.Status)
	}
	if len(b.Redirects) > maxHeaders {
		v.report(join(at, "redirects"), fmt.Sprintf("%d redirects, more than %d", len(b.Redirects), maxHeaders), "")
		return
	}
	for _, from := range slices.Sorted(maps.Keys(b.Redirects)) {
		to := b.Redirects[from]
		switch {
		case !IsPath(from) || !IsPath(to):
			v.report(join(at, "redirects"), fmt.Sprintf("%.80q to %.80q: both must be paths that begin with /", from, to), "")
		case b.Redirects[to] != "":
			v.report(join(at, "redirects"), fmt.Sprintf("%.80q leads to %.80q, which is redirected as well", from, to), "")
		}
	}
}

func (v checks) options(at string, c CallOptions, index int) {
	v.protocol(at+".protocol", c.Protocol, called)
	if c.Path != "" && !IsPath(c.Path) {
		v.report(at+".path", fmt.Sprintf("%.80q is not a path", c.Path), "it begins with / and holds no spaces")
	}
	if c.Protocol == GRPC && c.Path != "" {
		v.report(at+".path", "a call by gRPC has no path", "")
	}
	if c.Alongside && index == 0 {
		v.report(at+".alongside", "there is no call before this one", "")
	}
	if c.Probability != nil {
		within(v, at, "probability", *c.Probability)
	}
	within(v, at, "timeout", c.Timeout)
	within(v, at, "retries", c.Retries)
	if len(c.Headers) > maxHeaders {
		v.report(at+".headers", fmt.Sprintf("%d headers, more than %d", len(c.Headers), maxHeaders), "")
		return
	}
	for _, name := range slices.Sorted(maps.Keys(c.Headers)) {
		if !isHeader(name) || !isValue(c.Headers[name]) {
			v.report(at+".headers", fmt.Sprintf("%.80q: %.80q is not a header that can be set", name, c.Headers[name]),
				"letters, digits and - in the name; printable ASCII in the value; those of the protocol itself, such as Host and Connection, cannot be set")
		}
	}
}

// within reports a number outside the limits of its field.
func within[T int | float64 | Duration | Size](v checks, at, field string, x T) {
	l := Limits[field]
	if in := float64(x) >= l.Low && float64(x) <= l.High; !in && !(l.OrZero && x == 0) {
		v.report(join(at, field), fmt.Sprintf("%v is not from %v to %v", x, l.Low, T(l.High)), l.hint)
	}
}

// join returns the path of name below at. at may be empty.
func join(at, name string) string {
	if at == "" {
		return name
	}
	return at + "." + name
}

func (v checks) report(path, message, hint string) {
	if path = v.prefix + path; v.r.Sound(path) {
		v.r.Report(path, message, hint)
	}
}

// IsPath reports whether s is a path of an HTTP request, with an optional query.
func IsPath(s string) bool {
	return strings.HasPrefix(s, "/") && len(s) <= maxText && !strings.ContainsFunc(s, func(r rune) bool {
		return r <= ' ' || r >= 0x7f || strings.ContainsRune(`"<>\^{|}%#`+"`", r)
	})
}

// reserved headers belong to the protocol itself. A request that sets one could not
// be sent, or would be misread.
var reserved = []string{"host", "connection", "content-length", "content-type", "transfer-encoding", "te", "trailer", "upgrade", "keep-alive", "proxy-connection", "user-agent", "expect"}

func isHeader(s string) bool {
	if s == "" || len(s) > 100 || slices.Contains(reserved, strings.ToLower(s)) || strings.HasPrefix(strings.ToLower(s), "grpc-") {
		return false
	}
	return strings.Trim(strings.ToLower(s), "abcdefghijklmnopqrstuvwxyz0123456789-") == ""
}

func isValue(s string) bool {
	return len(s) <= maxText && !strings.ContainsFunc(s, func(r rune) bool { return r < ' ' || r >= 0x7f }) && strings.TrimSpace(s) == s
}
