package series

import (
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/tare-mesh/tare/internal/base/hint"
	"github.com/tare-mesh/tare/internal/base/printable"
)

// Protocol is how a receiver takes series.
type Protocol string

// The protocols.
const (
	RemoteWrite Protocol = "remote-write"
	OTLP        Protocol = "otlp"
)

// Protocols are all of them.
func Protocols() []string { return []string{string(RemoteWrite), string(OTLP)} }

// endings of paths, by which a protocol is recognised.
var endings = []struct {
	path string
	of   Protocol
}{
	{"/api/v1/write", RemoteWrite}, {"/api/v1/push", RemoteWrite}, {"/api/v1/receive", RemoteWrite}, {"/v1/metrics", OTLP},
}

// Target is a receiver.
type Target struct {
	URL      *url.URL
	Protocol Protocol
	Header   http.Header // secrets: in no message
	// Retrying is called before each repetition, unless it is nil.
	Retrying func(why string)
}

// ParseTarget checks a URL. An empty protocol is recognised by the path.
func ParseTarget(address string, protocol Protocol) (*Target, error) {
	u, err := printable.ParseURL(address)
	switch {
	case err != nil:
		return nil, hint.New("write it as http://127.0.0.1:9090/api/v1/write", "the URL is not valid: %w", err)
	case u.Scheme != "http" && u.Scheme != "https" || u.Host == "":
		return nil, hint.New("write it as http://127.0.0.1:9090/api/v1/write", "the URL has to begin with http:// or https:// and a host")
	case u.User != nil:
		return nil, hint.New(byHeader, "the URL has a password, which other users of this machine can read")
	}
	t := &Target{URL: u, Protocol: protocol}
	for _, e := range endings {
		if t.Protocol == "" && strings.HasSuffix(strings.TrimSuffix(u.Path, "/"), e.path) {
			t.Protocol = e.of
		}
	}
	if protocol != "" && !slices.Contains(Protocols(), string(protocol)) {
		return nil, hint.New("protocols: "+strings.Join(Protocols(), ", "), "unknown protocol %q", protocol)
	}
	if t.Protocol == "" {
		return nil, hint.New("add --push-protocol "+strings.Join(Protocols(), " or --push-protocol "), "the path %q is of no known protocol", u.Path)
	}
	return t, nil
}

// String is the URL without its query, which may have a secret.
func (t *Target) String() string {
	u := *t.URL
	u.RawQuery, u.Fragment = "", ""
	return u.String()
}

// byHeader is the hint of requests that need authorization.
const byHeader = `add --push-header "Authorization: Bearer ${env:TOKEN}"`

// cures are for answers that databases give.
var cures = []struct {
	texts []string
	cure  string
}{
	{[]string{"out of bounds", "too old", "out of order", "out-of-order"}, "the run is older than the database accepts, or was pushed before: set out_of_order_time_window (Prometheus: storage.tsdb)"},
	{[]string{"duplicate sample"}, "the run was pushed before with other figures, such as by an older tare: delete its series first"},
	{[]string{"401 Unauthorized", "403 Forbidden"}, byHeader},
	{[]string{"404 Not Found", "405 Method Not Allowed"}, "check the path; Prometheus needs --web.enable-remote-write-receiver or --web.enable-otlp-receiver"},
	{[]string{"415 Unsupported Media Type"}, "check the protocol: --push-protocol"},
	{[]string{"301 Moved", "302 Found", "303 See", "307 Temporary", "308 Permanent"}, "redirects are not followed: write the final URL"},
	{[]string{"connection refused"}, "start the receiver, or check host and port"},
	{[]string{"no such host"}, "check the host"},
	{[]string{"certificate"}, "set SSL_CERT_FILE to the file of the certificate authority"},
}

const mostText = 500 // bytes of others' text in a message

// Problem is an error without secrets, with a cure where one is known.
func (t *Target) Problem(err error) error {
	text := err.Error()
	hide := []string{t.URL.RawQuery}
	for _, of := range []map[string][]string{t.Header, t.URL.Query()} {
		for _, values := range of {
			for _, v := range values {
				hide = append(append(hide, v), strings.Fields(v)...)
			}
		}
	}
	for _, secret := range hide {
		if len(secret) >= shortestSecret {
			text = strings.ReplaceAll(text, secret, "…")
		}
	}
	text = strings.TrimSpace(printable.Line(text))
	cure := ""
	for _, c := range cures {
		if cure == "" && slices.ContainsFunc(c.texts, func(s string) bool { return strings.Contains(text, s) }) {
			cure = c.cure
		}
	}
	if len(text) > mostText {
		text = strings.ToValidUTF8(text[:mostText], "") + "…"
	}
	return hint.Wrap(fmt.Errorf("push to %s: %s", t, text), cure)
}

// shortestSecret in bytes: "Bearer" is none.
const shortestSecret = 8
