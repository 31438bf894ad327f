package loadgen

import (
	"bytes"
	"encoding/binary"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/net/http2/hpack"
)

// requestH2 is a request as HTTP/2 sends it: header blocks made once (RFC 7541),
// and the body. As every request is the same, so is the block of each but the first
// on a connection, which fills the server's table.
type requestH2 struct {
	first, later []byte // for a table of the default size
	plain        []byte // for a smaller one: uses no table
	body         []byte
}

// defaultTable is the size in bytes of a header table nobody has spoken of.
const defaultTable = 4096

// buildRequestH2 encodes the request to u.
func buildRequestH2(u *url.URL, p *Profile, body []byte) *requestH2 {
	if p.Protocol == protocolGRPC {
		body = grpcMessage(p, body)
	}
	fields := fieldsH2(u, p, body)
	r := &requestH2{body: body}
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

func fieldsH2(u *url.URL, p *Profile, body []byte) []hpack.HeaderField {
	method, path := p.Method, u.RequestURI()
	fields := []hpack.HeaderField{{Name: "user-agent", Value: "tare"}}
	add := func(name, value string) { fields = append(fields, hpack.HeaderField{Name: name, Value: value}) }
	switch {
	case p.Protocol == protocolGRPC:
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

// grpcPrefixSize is the length of what precedes a gRPC message: a byte of flags
// and four of length.
const grpcPrefixSize = 5

// grpcMessage frames a message. Without a file it is one whose field 1 is bytes,
// as many as the profile asks for, or the empty one: what tare's own services and
// most echo services take.
func grpcMessage(p *Profile, body []byte) []byte {
	var field []byte
	if p.BodyFile == "" && len(body) > 0 {
		field = append(field, 1<<3|2) // field 1, length-delimited
		field = binary.AppendUvarint(field, uint64(len(body)))
	}
	b := make([]byte, 0, grpcPrefixSize+len(field)+len(body))
	b = append(b, 0)
	b = binary.BigEndian.AppendUint32(b, uint32(len(field)+len(body)))
	return append(append(b, field...), body...)
}
