package http1

import (
	"net/url"
	"slices"
	"strconv"

	"github.com/tare-mesh/tare/internal/load"
	"github.com/tare-mesh/tare/internal/load/template"
)

// Varying is a request whose bytes differ from send to send: it has expressions, or cookies.
type Varying struct {
	head   template.Text // request line and header fields, except the fields of body and cookies
	body   template.Text
	length bool // it has a Content-Length
}

// BuildVarying prepares a request to u.
func BuildVarying(u *url.URL, p *load.Profile, t *template.Texts) *Varying {
	v := &Varying{body: t.Body, length: hasLength(p.Method, t.Bodily)}
	parts := []template.Text{template.Literal(p.Method + " "), t.Path, template.Literal(" HTTP/1.1\r\n")}
	for _, f := range fieldsOf(u, p, v.length) {
		value := template.Literal(f.value)
		if f.own >= 0 {
			value = t.Values[f.own]
		}
		parts = append(parts, template.Literal(f.name+": "), value, template.Literal("\r\n"))
	}
	v.head = template.Join(parts...)
	return v
}

// Append appends the request with the values of one send. cookies is the value of the header
// Cookie, empty for none.
func (v *Varying) Append(b []byte, x *template.Values, cookies []byte) []byte {
	b = v.head.Append(b, x)
	begin := len(b)
	b = v.body.Append(b, x)
	n := len(b) - begin
	// The end of the header follows the body, whose length it has, and is moved before it.
	if v.length {
		b = append(b, "Content-Length: "...)
		b = strconv.AppendInt(b, int64(n), 10)
		b = append(b, "\r\n"...)
	}
	if len(cookies) > 0 {
		b = append(b, "Cookie: "...)
		b = append(b, cookies...)
		b = append(b, "\r\n"...)
	}
	b = append(b, "\r\n"...)
	rotate(b[begin:], n)
	return b
}

// rotate moves the first n bytes behind the others, in place.
func rotate(b []byte, n int) {
	slices.Reverse(b[:n])
	slices.Reverse(b[n:])
	slices.Reverse(b)
}
