package http2

import (
	"bytes"
	"encoding/binary"
	"math/bits"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/net/http2/hpack"

	"github.com/tare-mesh/tare/internal/load"
	"github.com/tare-mesh/tare/internal/load/check"
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

// messageReader finds the messages of a gRPC answer, however their bytes are cut up.
type messageReader struct {
	prefix   [grpcPrefixSize]byte
	prefixed int          // bytes of prefix, all of them while a message is under way
	left     int64        // bytes of the message yet to come
	whole    int          // messages
	flaw     load.Failure // of a message
}

// read reads the bytes b of st's messages. size is the expected size of a message, negative for any.
func (m *messageReader) read(st *Stream, b []byte, size int64) {
	for len(b) > 0 {
		if m.prefixed < grpcPrefixSize {
			n := copy(m.prefix[m.prefixed:], b)
			b = b[n:]
			if m.prefixed += n; m.prefixed < grpcPrefixSize {
				return
			}
			m.left = int64(binary.BigEndian.Uint32(m.prefix[1:]))
			switch {
			case m.prefix[0] != 0: // compressed, which the request did not offer to take
				m.flaw = load.FailureMalformed
			case m.flaw == load.FailureNone && size >= 0 && grpcPayload(m.left) != size:
				m.flaw = load.FailureWrongSize
			}
		}
		part := b[:min(int64(len(b)), m.left)]
		b = b[len(part):]
		st.content.Add(part)
		if m.left -= int64(len(part)); m.left > 0 {
			return
		}
		m.prefixed = 0
		m.whole++
	}
}

// grpcOutcome is the failure and the status of a whole gRPC answer. streaming allows
// any number of messages, not just one.
func (st *Stream) grpcOutcome(expect *check.Expectation, streaming bool) (load.Failure, int) {
	status := load.StatusGRPC + st.grpc
	m := &st.incoming
	switch {
	case st.grpc < 0:
		return load.FailureNoGRPCStatus, 0
	case st.grpc > 0:
	case m.prefixed != 0, st.Messages != 1 && !streaming, m.flaw == load.FailureMalformed:
		return load.FailureMalformed, 0
	case m.flaw != load.FailureNone:
		return m.flaw, status
	}
	return expect.Check(status, expect.Size, &st.content), status
}

// grpcPayload is the length of the bytes in field 1 of a message of the given size
// that has nothing else.
func grpcPayload(size int64) int64 {
	if size == 0 {
		return 0
	}
	payload := size - 2
	for payload > 0 && 1+int64(bits.Len64(uint64(payload))+6)/7+payload > size {
		payload--
	}
	return payload
}

// grpcPrefixSize is the length of what precedes a gRPC message: a byte of flags
// and four of length.
const grpcPrefixSize = 5

// grpcMessage frames a message. Without a file it is one whose field 1 is bytes,
// as many as the profile asks for, or the empty one: what tare's own services and
// most echo services take.
func grpcMessage(p *load.Profile, body []byte) []byte {
	var field []byte
	if !p.IsMessage() && len(body) > 0 {
		field = append(field, 1<<3|2) // field 1, length-delimited
		field = binary.AppendUvarint(field, uint64(len(body)))
	}
	b := make([]byte, 0, grpcPrefixSize+len(field)+len(body))
	return append(append(appendPrefix(b, len(field)+len(body)), field...), body...)
}

// appendPrefix appends what precedes a message of n bytes.
func appendPrefix(b []byte, n int) []byte {
	return binary.BigEndian.AppendUint32(append(b, 0), uint32(n))
}
