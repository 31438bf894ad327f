package http2

import (
	"net/http"
	"strconv"

	"golang.org/x/net/http2/hpack"

	"github.com/tare-mesh/tare/internal/load"
	"github.com/tare-mesh/tare/internal/load/template"
)

// varying are the parts of a request that differ from send to send.
type varying struct {
	pseudo, regular []varyingField
	body            template.Text
	length          []byte // the name of content-length, encoded, nil if the request has none
	cookie          []byte // the name of cookie, encoded
}

// varyingField is a header field: its name, encoded as a literal without indexing, and its value.
type varyingField struct {
	name  []byte
	value *template.Text
}

// vary prepares the parts of r that differ.
func (r *Request) vary(s *Spec, pseudo, regular []field) {
	if s.Texts == nil {
		return
	}
	v := &varying{body: s.Texts.Body, cookie: literalName("cookie")}
	method := s.Profile.Method
	switch {
	case s.Profile.Protocol == load.ProtocolGRPC:
		v.body = template.Literal(string(r.body)) // with its prefix
	case s.Texts.Bodily, method == http.MethodPost, method == http.MethodPut, method == http.MethodPatch:
		v.length = literalName("content-length")
	}
	varying := func(fields []field) (varies []varyingField) {
		for _, f := range fields {
			if f.text != nil {
				varies = append(varies, varyingField{literalName(f.Name), f.text})
			}
		}
		return varies
	}
	v.pseudo, v.regular = varying(pseudo), varying(regular)
	r.varying = v
}

// literalName encodes the name of a literal without indexing.
func literalName(name string) []byte {
	l := newLiterals()
	encoded := l.encode([]field{{HeaderField: hpack.HeaderField{Name: name, Value: "x"}}}, nil)
	return encoded[:len(encoded)-2] // the value is its length and one byte
}

// buffers hold a varying request until it is framed.
type buffers struct{ header, value []byte }

// fill writes the header block of a request, and its body, which it appends to body.
func (w *buffers) fill(r *Request, fixed *block, x *template.Values, cookies, body []byte) []byte {
	v := r.varying
	body = v.body.Append(body, x)
	add := func(fields []varyingField) {
		for i := range fields {
			w.value = fields[i].value.Append(w.value[:0], x)
			w.header = appendValue(append(w.header, fields[i].name...), w.value)
		}
	}
	w.header = append(w.header[:0], fixed.bytes[:fixed.cut]...)
	add(v.pseudo)
	w.header = append(w.header, fixed.bytes[fixed.cut:]...)
	add(v.regular)
	if v.length != nil {
		w.value = strconv.AppendInt(w.value[:0], int64(len(body)), 10)
		w.header = appendValue(append(w.header, v.length...), w.value)
	}
	if len(cookies) > 0 {
		w.header = appendValue(append(w.header, v.cookie...), cookies)
	}
	return body
}

// appendValue appends the value of a literal, as it is (RFC 7541 section 5.2).
func appendValue(b, value []byte) []byte {
	n := uint64(len(value))
	if n < 0x7f {
		return append(append(b, byte(n)), value...)
	}
	b = append(b, 0x7f)
	for n -= 0x7f; n >= 0x80; n >>= 7 {
		b = append(b, byte(n)|0x80)
	}
	return append(append(b, byte(n)), value...)
}
