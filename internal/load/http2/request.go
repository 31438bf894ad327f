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
	"github.com/tare-mesh/tare/internal/load/template"
)

// Request is a request as HTTP/2 sends it: header blocks made once (RFC 7541), and the body.
//
// Requests of one origin share connections, and so the server's header table. Fields that all of
// them have are in the table from the first request on. The others are literals without
// indexing, which leave the table as it is. So the block of a request is always the same, whatever
// was sent before it, except for the first request on a connection, which fills the table.
type Request struct {
	first, later, plain block // plain is for a table that is smaller than the default
	body                []byte
	bodyless            bool // its answer has no body: the method is HEAD
	varying             *varying
	ends                []int // of the messages in body that wait for answers, nil if none waits
}

// block is a header block. The pseudo-header fields, up to cut, precede all others.
type block struct {
	bytes []byte
	cut   int
}

// Spec is a request to be built.
type Spec struct {
	Into    *Request
	URL     *url.URL
	Profile *load.Profile
	Body    []byte
	Texts   *template.Texts // of a request that differs from send to send, nil if it does not
}

// field is a header field. One with a text has another value in each request.
type field struct {
	hpack.HeaderField
	text *template.Text
}

// defaultTable is the size in bytes of a header table without a setting.
const defaultTable = 4096

// BuildRequests encodes all requests of one origin.
func BuildRequests(specs []Spec) {
	pseudo, regular := make([][]field, len(specs)), make([][]field, len(specs))
	for i := range specs {
		s := &specs[i]
		s.Into.body, s.Into.bodyless = s.Body, s.Profile.Method == http.MethodHead
		switch {
		case s.Profile.Protocol != load.ProtocolGRPC:
		case len(s.Profile.Messages) > 0:
			s.Into.addMessages(s.Profile)
		default:
			s.Into.body = grpcMessage(s.Profile, s.Body)
		}
		pseudo[i], regular[i] = s.fields()
		s.Into.vary(s, pseudo[i], regular[i])
	}
	common := [2][]hpack.HeaderField{commonFields(pseudo), commonFields(regular)}
	l := newLiterals()
	for i := range specs {
		b := builder{common: common, literals: [2][]byte{l.encode(pseudo[i], common[0]), l.encode(regular[i], common[1])}}
		r := specs[i].Into
		r.first = b.build(1, defaultTable)
		r.later = b.build(3, defaultTable) // a block is the same again once the table has what it needs
		r.plain = b.build(1, 0)
	}
}

// addMessages makes the body of the messages of a call.
func (r *Request) addMessages(p *load.Profile) {
	r.body = nil
	for _, m := range p.Messages {
		r.body = append(appendPrefix(r.body, len(m)), m...)
		if p.RoundTrips {
			r.ends = append(r.ends, len(r.body))
		}
	}
}

// builder makes the blocks of one request, of pseudo-header fields and others.
type builder struct {
	common   [2][]hpack.HeaderField
	literals [2][]byte
}

// build encodes the request a number of times with one table, and returns the last block.
func (b *builder) build(times int, table uint32) (last block) {
	var out bytes.Buffer
	e := hpack.NewEncoder(&out)
	if table != defaultTable {
		e.SetMaxDynamicTableSize(table)
	}
	for range times {
		out.Reset()
		for i := range b.common {
			for _, f := range b.common[i] {
				_ = e.WriteField(f) // to memory: cannot fail
			}
			out.Write(b.literals[i])
			if i == 0 {
				last.cut = out.Len()
			}
		}
	}
	last.bytes = slices.Clone(out.Bytes())
	return last
}

// commonFields are the fields with a fixed value that each of the requests has once, in the order
// of the first.
func commonFields(of [][]field) (common []hpack.HeaderField) {
	counts := map[hpack.HeaderField]int{}
	for _, fields := range of {
		for _, f := range fields {
			if f.text == nil {
				counts[f.HeaderField]++
			}
		}
	}
	for _, f := range of[0] {
		seen := func(other field) bool { return other.text == nil && other.HeaderField == f.HeaderField }
		if f.text == nil && counts[f.HeaderField] == len(of) && !slices.ContainsFunc(of, func(fields []field) bool { return !slices.ContainsFunc(fields, seen) }) {
			common = append(common, f.HeaderField)
		}
	}
	return common
}

// literals encodes fields without indexing.
type literals struct {
	out     bytes.Buffer
	encoder *hpack.Encoder
}

func newLiterals() *literals {
	l := &literals{}
	l.encoder = hpack.NewEncoder(&l.out)
	l.encoder.SetMaxDynamicTableSize(0)
	_ = l.encoder.WriteField(hpack.HeaderField{Name: "x", Value: "x"}) // after the change of the table's size
	return l
}

// encode returns the encoded fields that have a fixed value and are not common to all.
func (l *literals) encode(fields []field, common []hpack.HeaderField) []byte {
	l.out.Reset()
	for _, f := range fields {
		if f.text == nil && !slices.Contains(common, f.HeaderField) {
			_ = l.encoder.WriteField(f.HeaderField)
		}
	}
	return slices.Clone(l.out.Bytes())
}

// fields are the header fields of a request, except the cookies of a user.
func (s *Spec) fields() (pseudo, regular []field) {
	u, p := s.URL, s.Profile
	method, path := p.Method, u.RequestURI()
	add := func(name, value string) {
		regular = append(regular, field{HeaderField: hpack.HeaderField{Name: name, Value: value}})
	}
	add("user-agent", "tare")
	switch {
	case p.Protocol == load.ProtocolGRPC:
		method, path = http.MethodPost, u.EscapedPath()
		add("content-type", "application/grpc")
		add("te", "trailers")
	case len(s.Body) > 0 || method == http.MethodPost || method == http.MethodPut || method == http.MethodPatch:
		if kind := p.BodyType(); kind != "" {
			add("content-type", kind)
		}
		if s.Texts == nil {
			add("content-length", strconv.Itoa(len(s.Body)))
		}
	}
	authority, defaults := field{HeaderField: hpack.HeaderField{Name: ":authority", Value: u.Host}}, len(regular)
	for i, h := range p.Headers {
		name, value, _ := strings.Cut(h, ":")
		f := field{HeaderField: hpack.HeaderField{Name: strings.ToLower(name), Value: strings.TrimSpace(value)}}
		if s.Texts != nil {
			f = f.withValue(&s.Texts.Values[i])
		}
		same := slices.IndexFunc(regular[:defaults], func(d field) bool { return d.Name == f.Name })
		switch {
		case f.Name == "host":
			f.Name = authority.Name
			authority = f
		case same >= 0:
			regular[same] = f
		default:
			regular = append(regular, f)
		}
	}
	where := field{HeaderField: hpack.HeaderField{Name: ":path", Value: path}}
	if s.Texts != nil {
		where = where.withValue(&s.Texts.Path)
	}
	return []field{
		{HeaderField: hpack.HeaderField{Name: ":method", Value: method}}, {HeaderField: hpack.HeaderField{Name: ":scheme", Value: u.Scheme}},
		authority, where,
	}, regular
}

// withValue returns f with a value that may have expressions.
func (f field) withValue(t *template.Text) field {
	if value, fixed := t.Fixed(); fixed {
		f.Value, f.text = string(value), nil
	} else {
		f.Value, f.text = "", t
	}
	return f
}
