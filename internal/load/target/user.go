package target

import (
	"cmp"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"time"

	"github.com/tare-mesh/tare/internal/load"
)

// Bounds of the cookies of a user, as browsers have them at least (RFC 6265 section 6.1).
const (
	maxCookies = 50
	maxCookie  = 4 << 10 // bytes, of name and value
)

// User is a virtual user: a connection, whose place may be taken by another socket. It has
// cookies of one origin (RFC 6265).
type User struct {
	Turn    int // of the requests of the origin
	cookies []cookie

	// The last value of the header Cookie, and what it is of.
	header []byte
	of     *Target
	until  time.Time // the next end of a cookie, zero for none
}

// cookie is one of a user's.
type cookie struct {
	name, value, path string
	secure            bool
	end               time.Time // zero: with the load
}

// NewUser makes a user with the cookies that the requests of the origin have of their own.
func NewUser(targets []*Target) *User {
	u := &User{}
	for _, t := range targets {
		for _, c := range t.Cookies {
			u.set(cookie{name: c.Name, value: c.Value, path: "/"})
		}
	}
	return u
}

// Set takes the values of Set-Cookie of an answer to a request to t.
func (u *User) Set(t *Target, lines []string) {
	for _, line := range lines {
		c, err := http.ParseSetCookie(line)
		if err != nil || len(c.Name)+len(c.Value) > maxCookie || !inDomain(t.URL.Hostname(), c.Domain) {
			continue
		}
		kept := cookie{name: c.Name, value: c.Value, path: c.Path, secure: c.Secure, end: c.Expires}
		if c.Quoted {
			kept.value = `"` + c.Value + `"`
		}
		switch {
		case c.MaxAge < 0:
			kept.end = time.Unix(1, 0)
		case c.MaxAge > 0:
			kept.end = time.Now().Add(time.Duration(min(c.MaxAge, 1<<30)) * time.Second)
		}
		if !strings.HasPrefix(kept.path, "/") {
			kept.path = defaultPath(t.URL)
		}
		u.set(kept)
	}
}

// set adds a cookie, or replaces the one of the same name and path. One that is over is removed.
func (u *User) set(c cookie) {
	u.of = nil
	over := !c.end.IsZero() && !c.end.After(time.Now())
	for i, old := range u.cookies {
		if old.name != c.name || old.path != c.path {
			continue
		}
		if over {
			u.cookies = append(u.cookies[:i], u.cookies[i+1:]...)
		} else {
			u.cookies[i] = c
		}
		return
	}
	if over {
		return
	}
	if len(u.cookies) == maxCookies {
		u.cookies = u.cookies[1:]
	}
	u.cookies = append(u.cookies, c)
}

// Header is the value of the header Cookie of a request to t, empty for none. It is valid until
// the next call.
func (u *User) Header(t *Target) []byte {
	if u.of == t && (u.until.IsZero() || time.Now().Before(u.until)) {
		return u.header
	}
	u.header, u.of, u.until = u.header[:0], t, time.Time{}
	now := time.Now()
	kept := u.cookies[:0]
	for _, c := range u.cookies {
		if !c.end.IsZero() && !c.end.After(now) {
			continue
		}
		kept = append(kept, c)
		if c.secure && t.URL.Scheme != "https" || !inPath(t.URL.EscapedPath(), c.path) {
			continue
		}
		if len(u.header) > 0 {
			u.header = append(u.header, "; "...)
		}
		u.header = append(append(append(u.header, c.name...), '='), c.value...)
		if !c.end.IsZero() && (u.until.IsZero() || c.end.Before(u.until)) {
			u.until = c.end
		}
	}
	u.cookies = kept
	return u.header
}

// inDomain reports whether a host may set a cookie for a domain (RFC 6265 section 5.1.3).
func inDomain(host, domain string) bool {
	domain = strings.ToLower(strings.TrimPrefix(domain, "."))
	host = strings.ToLower(host)
	if domain == "" || host == domain {
		return true
	}
	_, err := netip.ParseAddr(host)
	return err != nil && strings.HasSuffix(host, "."+domain)
}

// defaultPath is the path of a cookie that names none (RFC 6265 section 5.1.4).
func defaultPath(u *url.URL) string {
	path := u.EscapedPath()
	if i := strings.LastIndexByte(path, '/'); i > 0 {
		return path[:i]
	}
	return "/"
}

// inPath reports whether a cookie's path covers the path of a request (RFC 6265 section 5.1.4).
func inPath(request, path string) bool {
	request = cmp.Or(request, "/")
	return request == path || strings.HasPrefix(request, path) && (strings.HasSuffix(path, "/") || request[len(path)] == '/')
}

// ownCookies takes the cookies out of a request's headers.
func ownCookies(call *load.Profile) (cookies []*http.Cookie) {
	var rest []string
	for _, h := range call.Headers {
		name, value, _ := strings.Cut(h, ":")
		if !strings.EqualFold(strings.TrimSpace(name), "cookie") {
			rest = append(rest, h)
			continue
		}
		if own, err := http.ParseCookie(strings.TrimSpace(value)); err == nil {
			cookies = append(cookies, own...)
		}
	}
	call.Headers = rest
	return cookies
}
