package http1

import (
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/tare-mesh/tare/internal/load"
)

// Bounds of the cache of redirects, which is cleared at the bound: a server that
// generates names must not exhaust the memory.
const (
	MaxHops    = 4096
	maxBytes   = 16 << 20 // of all caches of a worker: each hop has a copy of the body
	MaxDetours = 16       // connections of one place to other origins
)

// Hop is one request of a chain of redirects (RFC 9110 section 15.4).
type Hop struct {
	Url     *url.URL
	Origin  string // scheme, host and port
	method  string
	bodily  bool // has the profile's body
	foreign bool // has left the target's origin: its own headers are left out
	Request []byte
}

// RootHop is the request that a chain begins with.
func RootHop(u *url.URL, p *load.Profile) *Hop {
	return &Hop{Url: u, Origin: originOf(u), method: p.Method, bodily: true}
}

// Redirects finds where redirects lead, and remembers. It is for one thread.
type Redirects struct {
	Profile *load.Profile
	Body    []byte
	hops    map[step]*Hop
	bytes   int // of hops, about
}

// step is one redirect.
type step struct {
	from     *Hop
	status   int
	location string
}

// isRedirect reports whether a status redirects to a location that is to be followed.
func isRedirect(status int) bool {
	switch status {
	case http.StatusMovedPermanently, http.StatusFound, http.StatusSeeOther, http.StatusTemporaryRedirect, http.StatusPermanentRedirect:
		return true
	}
	return false
}

// Next returns the target of a redirect in response to from, after a number of earlier hops.
func (r *Redirects) Next(from *Hop, before, status int, location []byte) (*Hop, load.Failure) {
	if before >= r.Profile.Follow {
		return nil, load.FailureRedirects
	}
	if to := r.hops[step{from, status, string(location)}]; to != nil {
		return to, load.FailureNone
	}
	u, err := from.Url.Parse(string(location))
	if err == nil {
		u.Fragment, u.RawFragment = "", ""
		_, err = load.ParseTarget(u.String())
	}
	if err != nil || u.Scheme == load.SchemeTCP {
		return nil, load.FailureBadRedirect
	}
	to := &Hop{Url: u, Origin: originOf(u), method: from.method, bodily: from.bodily, foreign: from.foreign || originOf(u) != from.Origin}
	seeOther := status == http.StatusSeeOther || status < http.StatusSeeOther && from.method == http.MethodPost
	if seeOther && from.method != http.MethodHead {
		to.method, to.bodily = http.MethodGet, false
	}
	to.Request = r.request(to)
	size := len(to.Request) + len(u.Path) + len(location)
	if r.hops == nil || len(r.hops) >= MaxHops || r.bytes+size > maxBytes {
		r.hops, r.bytes = map[step]*Hop{}, 0
	}
	r.bytes += size
	r.hops[step{from, status, string(location)}] = to
	return to, load.FailureNone
}

func originOf(u *url.URL) string {
	return u.Scheme + "://" + strings.ToLower(u.Hostname()) + ":" + strconv.Itoa(int(load.PortOf(u)))
}

// request encodes h: the profile's request, with the redirect's changes.
func (r *Redirects) request(h *Hop) []byte {
	p, body := *r.Profile, r.Body
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
	return BuildRequest(h.Url, &p, body)
}
