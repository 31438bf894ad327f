package app

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
)

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
