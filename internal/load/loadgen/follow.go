package loadgen

import (
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
)

// DefaultFollow is how many redirects a request is taken through at most where they
// are followed and nothing else is said: as many as net/http's client does.
const DefaultFollow = 10

// Bounds of what is kept of redirects, beyond which it is begun anew: a server that
// makes up names must not fill the memory.
const (
	maxHops    = 4096
	maxDetours = 16 // connections of one place to other origins
)

// hop is one request of a chain of redirects (RFC 9110 section 15.4).
type hop struct {
	url     *url.URL
	origin  string // scheme, host and port
	method  string
	bodily  bool // has the profile's body
	foreign bool // has left the target's origin: what is meant for that alone is left out
	request []byte
}

// root is the request that a chain begins with.
func root(u *url.URL, p *Profile) *hop {
	return &hop{url: u, origin: originOf(u), method: p.Method, bodily: true}
}

func originOf(u *url.URL) string {
	return u.Scheme + "://" + strings.ToLower(u.Hostname()) + ":" + strconv.Itoa(int(portOf(u)))
}

// route finds where redirects lead, and remembers. It is for one thread.
type route struct {
	profile *Profile
	body    []byte
	hops    map[step]*hop
}

// step is one redirect.
type step struct {
	from     *hop
	status   int
	location string
}

// redirects says whether a status is that of a redirect to be followed.
func redirects(status int) bool {
	switch status {
	case http.StatusMovedPermanently, http.StatusFound, http.StatusSeeOther, http.StatusTemporaryRedirect, http.StatusPermanentRedirect:
		return true
	}
	return false
}

// next is where an answer to from, after so many hops before, leads.
func (r *route) next(from *hop, before, status int, location []byte) (*hop, kind) {
	if before >= r.profile.Follow {
		return nil, kindRedirects
	}
	if to := r.hops[step{from, status, string(location)}]; to != nil {
		return to, kindNone
	}
	u, err := from.url.Parse(string(location))
	if err == nil {
		u.Fragment, u.RawFragment = "", ""
		_, err = parseTarget(u.String())
	}
	if err != nil || u.Scheme == schemeTCP {
		return nil, kindBadRedirect
	}
	to := &hop{url: u, origin: originOf(u), method: from.method, bodily: from.bodily, foreign: from.foreign || originOf(u) != from.origin}
	seeOther := status == http.StatusSeeOther || status < http.StatusSeeOther && from.method == http.MethodPost
	if seeOther && from.method != http.MethodHead {
		to.method, to.bodily = http.MethodGet, false
	}
	to.request = r.request(to)
	if r.hops == nil || len(r.hops) >= maxHops {
		r.hops = map[step]*hop{}
	}
	r.hops[step{from, status, string(location)}] = to
	return to, kindNone
}

// request is what is sent for h: as the profile says, but for what a redirect changes.
func (r *route) request(h *hop) []byte {
	p, body := *r.profile, r.body
	p.Method = h.method
	var gone []string
	if h.foreign {
		gone = append(gone, "authorization", "cookie", "host")
	}
	if !h.bodily {
		body = nil
		gone = append(gone, "content-type", "content-length", "content-encoding", "transfer-encoding")
	}
	p.Headers = slices.DeleteFunc(slices.Clone(p.Headers), func(line string) bool {
		name, _, _ := strings.Cut(line, ":")
		return slices.Contains(gone, strings.ToLower(name))
	})
	return buildRequest(h.url, &p, body)
}

// hopTarget is where to connect to for h. Its name is looked up when that is done first.
func hopTarget(p *Profile, h *hop) (*target, error) {
	t := &target{url: h.url, socket: p.Socket, protocol: protocolHTTP1, addrs: literal(h.url), root: h}
	if h.url.Scheme == "https" {
		var err error
		if t.tls, err = tlsConfig(p.TLS, h.url.Hostname(), offered[protocolHTTP1]); err != nil {
			return nil, fmt.Errorf("redirect to %s: %w", h.origin, err)
		}
	}
	return t, nil
}
