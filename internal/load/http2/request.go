package http2

import (
	"bytes"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/net/http2/hpack"

	"github.com/tare-mesh/tare/internal/load"
)

// Request is a request as HTTP/2 sends it: header blocks made once (RFC 7541),
// and the body. As every request is the same, so is the block of each but the first
// on a connection, which fills the server's table.
type Request struct {
	first, later []byte // for a table of the default size
	plain        []byte // for a smaller one: uses no table
	body         []byte
}

// defaultTable is the size in bytes of a header table without a setting.
const defaultTable = 4096

// BuildRequest encodes the request to u.
func BuildRequest(u *url.URL, p *load.Profile, body []byte) *Request {
	if p.Protocol == load.ProtocolGRPC {
		body = grpcMessage(p, body)
	}
	fields := fieldsH2(u, p, body)
	r := &Request{body: body}
	var b bytes.Buffer
	e := hpack.NewEncoder(&b)
	encode := func() []byte {
		b.Reset()
		for _, f := range fields {
			_ = e.WriteField(f) // to memory: cannot fail
		}
		return slices.Clone(b.Bytes())
	}
	encode()
	for range 2 { // a block is the same again once the table has what it needs
		r.later = encode()
	}
	e = hpack.NewEncoder(&b)
	r.first = encode()
	e = hpack.NewEncoder(&b)
	e.SetMaxDynamicTableSize(0)
	r.plain = encode()
	return r
}

func fieldsH2(u *url.URL, p *load.Profile, body []byte) []hpack.HeaderField {
	method, path := p.Method, u.RequestURI()
	fields := []hpack.HeaderField{{Name: "user-agent", Value: "tare"}}
	add := func(name, value string) { fields = append(fields, hpack.HeaderField{Name: name, Value: value}) }
	switch {
	case p.Protocol == load.ProtocolGRPC:
		method, path = http.MethodPost, u.EscapedPath()
		add("content-type", "application/grpc")
		add("te", "trailers")
	case len(body) > 0 || method == http.MethodPost || method == http.MethodPut || method == http.MethodPatch:
		add("content-type", "application/octet-stream")
		add("content-length", strconv.Itoa(len(body)))
	}
	authority, own := u.Host, len(fields)
	for _, h := range p.Headers {
		name, value, _ := strings.Cut(h, ":")
		name, value = strings.ToLower(name), strings.TrimSpace(value)
		same := slices.IndexFunc(fields[:own], func(f hpack.HeaderField) bool { return f.Name == name })
		switch {
		case name == "host":
			authority = value
		case same >= 0:
			fields[same].Value = value
		default:
			add(name, value)
		}
	}
	pseudo := []hpack.HeaderField{
		{Name: ":method", Value: method}, {Name: ":scheme", Value: u.Scheme},
		{Name: ":authority", Value: authority}, {Name: ":path", Value: path},
	}
	return append(pseudo, fields...)
}
