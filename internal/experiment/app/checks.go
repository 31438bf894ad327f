package app

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"time"
)

// Bounds of a service's configuration.
const (
	maxCPU       = Duration(10 * time.Second)
	maxMemory    = Size(64 << 30)
	maxRateLimit = 1e7
	maxRetries   = 100
	maxHeaders   = 100
	maxText      = 1024 // bytes of a path or of a header's value
)

// checks reports mistakes in the fields that topologies and instances share.
type checks struct {
	r      Reporter
	prefix string
}

func (v checks) behavior(at string, b Behavior) {
	v.status(join(at, "status"), b.Status)
	v.status(join(at, "failedCallStatus"), b.FailedCallStatus)
	if b.CPU < 0 || b.CPU > maxCPU {
		v.report(join(at, "cpu"), fmt.Sprintf("%v is not from 0 to %v", b.CPU, maxCPU), "")
	}
	if b.Memory < 0 || b.Memory > maxMemory {
		v.report(join(at, "memory"), fmt.Sprintf("%v is not from 0 to %v", b.Memory, maxMemory), "")
	}
	if r := b.RateLimit; !(r >= 0 && r <= maxRateLimit) {
		v.report(join(at, "rateLimit"), fmt.Sprintf("%v requests per second is not from 0 to %v", r, float64(maxRateLimit)), "0 is no limit")
	}
	if b.Errors != nil {
		v.ratio(join(at, "errors.ratio"), b.Errors.Ratio)
		v.status(join(at, "errors.status"), b.Errors.Status)
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

// join returns the path of name below at. at may be empty.
func join(at, name string) string {
	if at == "" {
		return name
	}
	return at + "." + name
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
		v.ratio(at+".probability", *c.Probability)
	}
	if c.Timeout < 0 || c.Timeout > Duration(MaxTime) {
		v.report(at+".timeout", fmt.Sprintf("%v is not from 0 to %v", c.Timeout, MaxTime), "0 is none")
	}
	if c.Retries < 0 || c.Retries > maxRetries {
		v.report(at+".retries", fmt.Sprintf("%d is not from 0 to %d", c.Retries, maxRetries), "")
	}
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

func (v checks) status(path string, status int) {
	if status != 0 && (status < 200 || status > 599) {
		v.report(path, fmt.Sprintf("status %d is not from 200 to 599", status), "")
	}
}

func (v checks) ratio(path string, x float64) {
	if !(x >= 0 && x <= 1) || math.IsNaN(x) {
		v.report(path, fmt.Sprintf("%v is not from 0 to 1", x), "it is a ratio: 0.01 is 1 %")
	}
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
