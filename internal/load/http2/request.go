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

// Request is a request as HTTP/2 sends it: header blocks made once (RFC 7541), and the body.
//
// Requests of one origin share connections, and so the server's header table. Fields that all of
// them have are in the table from the first request on. The others are literals without
// indexing, which leave the table as it is. So the block of a request is always the same, whatever
// was sent before it, except for the first request on a connection, which fills the table.
type Request struct {
	first, later, plain []byte // header blocks; plain is for a table that is smaller than the default
	body                []byte
	bodyless            bool  // its answer has no body: the method is HEAD
	ends                []int // of the messages in body that wait for answers, nil if none waits
}

// Spec is a request to be built.
type Spec struct {
	Into    *Request
	URL     *url.URL
	Profile *load.Profile
	Body    []byte
}

// defaultTable is the size in bytes of a header table without a setting.
const defaultTable = 4096

// BuildRequests encodes all requests of one origin.
func BuildRequests(specs []Spec) {
	pseudo, regular := make([][]hpack.HeaderField, len(specs)), make([][]hpack.HeaderField, len(specs))
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
func (b *builder) build(times int, table uint32) []byte {
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
		}
	}
	return slices.Clone(out.Bytes())
}

// commonFields are the fields that each of the requests has once, in the order
// of the first.
func commonFields(of [][]hpack.HeaderField) (common []hpack.HeaderField) {
	counts := map[hpack.HeaderField]int{}
	for _, fields := range of {
		for _, f := range fields {
			counts[f]++
		}
	}
	for _, f := range of[0] {
		if counts[f] == len(of) && !slices.ContainsFunc(of, func(fields []hpack.HeaderField) bool { return !slices.Contains(fields, f) }) {
			common = append(common, f)
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

// encode returns the encoded fields that are not common to all.
func (l *literals) encode(fields, common []hpack.HeaderField) []byte {
	l.out.Reset()
	for _, f := range fields {
		if !slices.Contains(common, f) {
			_ = l.encoder.WriteField(f)
		}
	}
	return slices.Clone(l.out.Bytes())
}

func (s *Spec) fields() (pseudo, regular []hpack.HeaderField) {
	u, p := s.URL, s.Profile
	method, path := p.Method, u.RequestURI()
	add := func(name, value string) {
		regular = append(regular, hpack.HeaderField{Name: name, Value: value})
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
		add("content-length", strconv.Itoa(len(s.Body)))
	}
	authority, defaults := hpack.HeaderField{Name: ":authority", Value: u.Host}, len(regular)
	for _, h := range p.Headers {
		name, value, _ := strings.Cut(h, ":")
		f := hpack.HeaderField{Name: strings.ToLower(name), Value: strings.TrimSpace(value)}
		same := slices.IndexFunc(regular[:defaults], func(d hpack.HeaderField) bool { return d.Name == f.Name })
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
	return []hpack.HeaderField{{Name: ":method", Value: method}, {Name: ":scheme", Value: u.Scheme}, authority, {Name: ":path", Value: path}}, regular
}
