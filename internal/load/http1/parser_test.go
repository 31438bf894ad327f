package http1

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"strings"
	"testing"

	"github.com/tare-mesh/tare/internal/load"
	"github.com/tare-mesh/tare/internal/load/check"
	"github.com/tare-mesh/tare/test/difftest"
)

// parseAll feeds raw in pieces, then the end of the stream, and returns the number
// of bytes of raw that belong to the response.
func parseAll(p *Parser, raw []byte, pieces func(left int) int) (used int, k load.Failure) {
	for used < len(raw) {
		size := min(len(raw)-used, max(1, pieces(len(raw)-used)))
		n, done, k := p.Feed(raw[used : used+size])
		used += n
		if k != load.FailureNone || done {
			return used, k
		}
		if n != size {
			panic("not all consumed")
		}
	}
	_, k = p.EndOfStream()
	return used, k
}

func whole(left int) int { return left }

func bytewise(int) int { return 1 }

func TestParser(t *testing.T) {
	tests := []struct {
		raw     string
		used    int // negative: all
		status  int
		body    int64
		closing bool
		kind    load.Failure
	}{
		{"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello", -1, 200, 5, false, load.FailureNone},
		{"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhelloHTTP/1.1", 43, 200, 5, false, load.FailureNone},
		{"HTTP/1.1 200\nContent-Length:2\n\nhi", -1, 200, 2, false, load.FailureNone}, // bare line feeds
		{"HTTP/1.1 204 No Content\r\nContent-Length: 5\r\n\r\n", -1, 204, 0, false, load.FailureNone},
		{"HTTP/1.1 304 Not Modified\r\n\r\n", -1, 304, 0, false, load.FailureNone},
		{"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\nx", -1, 200, 1, false, load.FailureNone},
		{"HTTP/1.1 101 Switching Protocols\r\n\r\n", -1, 101, 0, true, load.FailureNone},
		{"HTTP/1.1 200 OK\r\n\r\nuntil the end", -1, 200, 13, true, load.FailureNone},
		{"HTTP/1.0 200 OK\r\nContent-Length: 2\r\n\r\nhi", -1, 200, 2, true, load.FailureNone},
		{"HTTP/1.0 200 OK\r\nConnection: keep-alive\r\nContent-Length: 2\r\n\r\nhi", -1, 200, 2, false, load.FailureNone},
		{"HTTP/1.1 200 OK\r\nConnection: x, Close\r\nContent-Length: 2\r\n\r\nhi", -1, 200, 2, true, load.FailureNone},
		{"HTTP/1.1 200 OK\r\nTransfer-Encoding: Chunked\r\n\r\n5;a=b\r\nhello\r\n1\r\n!\r\n0\r\n\r\n", -1, 200, 6, false, load.FailureNone},
		{"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\nTrailer: x\r\nOther: y\r\n\r\n", -1, 200, 0, false, load.FailureNone},
		{"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nContent-Length: 99\r\n\r\n1\r\nx\r\n0\r\n\r\n", -1, 200, 1, false, load.FailureNone},
		{"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nContent-Length: 5\r\n\r\nhello", -1, 200, 5, false, load.FailureNone},
		{"HTTP/1.1 200 OK\r\nX: a\r\n b\r\nContent-Length:\r\n\t5\r\n\r\nhello", -1, 200, 5, false, load.FailureNone}, // folded lines
		{"", -1, 0, 0, false, load.FailureClosedEarly},
		{"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhell", -1, 200, 4, false, load.FailureHalfResponse},
		{"HTTP/1.1 100 Continue\r\n\r\n", -1, 0, 0, false, load.FailureHalfResponse},
		{"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\nhello", -2, 0, 0, false, load.FailureMalformed},
		{"HTTP/1.1 200 OK\r\nContent-Length: -5\r\n\r\nhello", -2, 0, 0, false, load.FailureMalformed},
		{"HTTP/1.1 200 OK\r\nContent-Length: 9223372036854775808\r\n\r\n", -2, 0, 0, false, load.FailureMalformed},
		{"HTTP/1.1 200 OK\r\nContent-Length: 5 6\r\n\r\nhello", -2, 0, 0, false, load.FailureMalformed},
		{"HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip\r\n\r\n", -2, 0, 0, false, load.FailureMalformed},
		{"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\nhello\r\n0\r\n\r\n", -2, 0, 0, false, load.FailureMalformed},
		{"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhelloX0\r\n\r\n", -2, 0, 0, false, load.FailureMalformed},
		{"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nfffffffffffffffff\r\n", -2, 0, 0, false, load.FailureMalformed},
		{"HTTP/1.1 2000 OK\r\n\r\n", -2, 0, 0, false, load.FailureMalformed},
		{"HTTP/1.1\r\n\r\n", -2, 0, 0, false, load.FailureMalformed},
		{"HTTQ/1.1 200 OK\r\n\r\n", -2, 0, 0, false, load.FailureMalformed},
		{"HTTP/1.1 200 OK\r\n X: a\r\n\r\n", -2, 0, 0, false, load.FailureMalformed},
		{"HTTP/1.1 200 OK\r\nno colon\r\n\r\n", -2, 0, 0, false, load.FailureMalformed},
		{"HTTP/1.1 200 OK\r\nB\x00d: a\r\n\r\n", -2, 0, 0, false, load.FailureMalformed},
		{"HTTP/1.1 200 OK\r\nX: long enough for words\x01\r\n\r\n", -2, 0, 0, false, load.FailureMalformed},
		{"HTTP/1.1 200 OK\r\nX: " + strings.Repeat("y", check.MaxHeader) + "\r\n\r\n", -2, 0, 0, false, load.FailureHeaderTooLarge},
		{strings.Repeat("HTTP/1.1 100 Continue\r\n\r\n", 4000), -2, 0, 0, false, load.FailureHeaderTooLarge},
	}
	for _, test := range tests {
		for name, pieces := range map[string]func(int) int{"whole": whole, "bytewise": bytewise} {
			var p Parser
			p.Reset(true)
			used, k := parseAll(&p, []byte(test.raw), pieces)
			if k != test.kind {
				t.Errorf("%.80q %s: kind %q, want %q", test.raw, name, k, test.kind)
				continue
			}
			if test.used == -2 {
				continue
			}
			want := test.used
			if want < 0 {
				want = len(test.raw)
			}
			if d := difftest.Of("used", used, want, "p.Status", p.Status, test.status, "p.Body", p.Body, test.body, "p.Closing", p.Closing, test.closing); d != "" {
				t.Errorf("%s: %.80q %s: used %d, status %d, body %d, closing %v; want %d, %d, %d, %v", d, test.raw, name, used, p.Status, p.Body, p.Closing, want, test.status, test.body, test.closing)
			}
		}
	}
}

func TestParserHead(t *testing.T) {
	var p Parser
	p.Reset(false)
	raw := "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n"
	if used, k := parseAll(&p, []byte(raw), whole); used != len(raw) || k != load.FailureNone || p.Body != 0 {
		t.Errorf("used %d, kind %v, body %d", used, k, p.Body)
	}
}

// standard reads raw with net/http, interim answers skipped as its client does.
func standard(raw []byte) (status int, body int64, closing bool, err error) {
	r := bufio.NewReaderSize(bytes.NewReader(raw), 64<<10)
	for {
		resp, err := http.ReadResponse(r, nil)
		if err != nil {
			return 0, 0, false, err
		}
		if resp.StatusCode/100 == 1 && resp.StatusCode != 101 {
			continue
		}
		n, err := io.Copy(io.Discard, resp.Body)
		return resp.StatusCode, n, resp.Close, err
	}
}

// differs compares the parser with net/http on raw, and "" means that they agree.
func differs(raw []byte, pieces func(int) int) string {
	if excused(raw) {
		return ""
	}
	status, body, closing, err := standard(raw)
	var p Parser
	p.Reset(true)
	used, k := parseAll(&p, raw, pieces)
	if d := recalls(raw, pieces, used, k, &p); d != "" {
		return d
	}
	switch {
	case k == load.FailureHeaderTooLarge: // net/http's own limit is elsewhere
		return ""
	case (err == nil) != (k == load.FailureNone):
		return fmt.Sprintf("net/http: %v; the parser: %q", err, k)
	case err != nil:
		return ""
	case p.Status == 101: // the bytes after it are not HTTP
		return ""
	case status != p.Status || body != p.Body || closing != p.Closing:
		return fmt.Sprintf("net/http: status %d, body %d, close %v; the parser: %d, %d, %v", status, body, closing, p.Status, p.Body, p.Closing)
	}
	return ""
}

// recalls compares p, which has read raw, with a parser that has read the same answer
// before and remembers its header.
func recalls(raw []byte, pieces func(int) int, used int, k load.Failure, p *Parser) string {
	q := Parser{Memo: &HeaderMemo{}}
	for range 2 {
		q.Reset(true)
		n, kind := parseAll(&q, raw, whole)
		if kind == k && n != used || kind != k || q.Status != p.Status || q.Body != p.Body || q.Closing != p.Closing {
			return fmt.Sprintf("remembered: %d bytes, %q, status %d, body %d, close %v; afresh: %d, %q, %d, %d, %v",
				n, kind, q.Status, q.Body, q.Closing, used, k, p.Status, p.Body, p.Closing)
		}
	}
	q.Reset(true)
	if n, kind := parseAll(&q, raw, pieces); kind != k || k == load.FailureNone && n != used || q.Body != p.Body {
		return fmt.Sprintf("remembered, in pieces: %d bytes, %q, body %d; afresh: %d, %q, %d", n, kind, q.Body, used, k, p.Body)
	}
	return ""
}

// excused reports inputs on which the two parsers differ on purpose:
//   - a sign in the status code, which net/http accepts
//   - a Trailer header that announces a framing field, which only net/http reads
//   - a bare line feed in a trailer: net/http searches for two full line ends
//     beyond the end of the response
func excused(raw []byte) bool {
	lower := bytes.ToLower(raw)
	if bytes.Contains(lower, []byte("trailer")) || bytes.Contains(raw, []byte(" +")) || bytes.Contains(raw, []byte(" -")) {
		return true
	}
	_, rest, _ := bytes.Cut(raw, []byte("0\r\n"))
	return bytes.Contains(lower, []byte("chunked")) && bytes.Count(rest, []byte("\n")) != bytes.Count(rest, []byte("\r\n"))
}

var responses = []string{
	"HTTP/1.1 200 OK\r\nServer: test\r\nDate: Sat, 21 Nov 2026 09:00:00 GMT\r\nContent-Type: text/plain\r\nContent-Length: 5\r\n\r\nhello",
	"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n10\r\n0123456789abcdef\r\n0\r\n\r\n",
	"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\na;name=value\r\n0123456789\r\n0\r\nExpires: never\r\n\r\n",
	"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 201 Created\r\nContent-Length: 2\r\nConnection: close, te\r\n\r\nhi",
	"HTTP/1.0 404 Not Found\r\nServer: old\r\nContent-Type: text/html\r\n\r\n<html></html>",
	"HTTP/1.0 200 OK\r\nConnection: Keep-Alive\r\nContent-Length: 3\r\n\r\nabc",
	"HTTP/1.1 304 Not Modified\r\nETag: \"x\"\r\nContent-Length: 100\r\n\r\n",
	"HTTP/1.1 200 OK\r\nX-Folded: one\r\n two\r\n\tthree\r\nContent-Length: 3\r\n\r\nabc",
	"HTTP/1.1 200 OK\r\nContent-Length: 3\r\nContent-Length: 3\r\ncontent-type: a/b; charset=\"utf-8\"\r\n\r\nabc",
	"HTTP/1.1 503 Service Unavailable\r\nRetry-After: 1\r\ncontent-length: 0\r\n\r\n",
}

// mutate changes a response in one to four places, mostly with bytes that mean something.
func mutate(rng *rand.Rand, raw []byte) []byte {
	const meaning = "\r\n\r\n :;,\t0123456789abcdefCL\x00\x7f\x80HTP/.-"
	raw = bytes.Clone(raw)
	for range 1 + rng.IntN(4) {
		if len(raw) == 0 {
			return raw
		}
		at := rng.IntN(len(raw))
		c := meaning[rng.IntN(len(meaning))]
		switch rng.IntN(5) {
		case 0:
			raw[at] = c
		case 1:
			raw = append(raw[:at], raw[at+1:]...)
		case 2:
			raw = append(raw[:at], append([]byte{c}, raw[at:]...)...)
		case 3: // a piece again
			end := min(len(raw), at+1+rng.IntN(30))
			raw = append(raw[:end], append(bytes.Clone(raw[at:end]), raw[end:]...)...)
		case 4:
			if rng.IntN(4) == 0 {
				raw = raw[:at]
			}
		}
	}
	return raw
}

func TestParserAgreesWithNetHTTP(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	accepted, corpus := 0, 30_000
	if testing.Short() {
		t.Attr("short", "3_000 responses")
		corpus = 3_000
	}
	for i := range corpus {
		raw := []byte(responses[i%len(responses)])
		if i >= len(responses) {
			raw = mutate(rng, raw)
		}
		if d := differs(raw, whole); d != "" {
			t.Errorf("%q: %s", raw, d)
		}
		if d := differs(raw, func(left int) int { return rng.IntN(left) }); d != "" {
			t.Errorf("%q in pieces: %s", raw, d)
		}
		if _, _, _, err := standard(raw); err == nil {
			accepted++
		} else if !errors.Is(err, io.ErrUnexpectedEOF) {
			continue
		}
	}
	if accepted < corpus/10 || accepted > corpus*9/10 {
		t.Errorf("%d of %d accepted: the corpus tests one side only", accepted, corpus)
	}
}

func FuzzParser(f *testing.F) {
	for _, r := range responses {
		f.Add([]byte(r), uint8(7))
	}
	f.Fuzz(func(t *testing.T, raw []byte, piece uint8) {
		if d := differs(raw, whole); d != "" {
			t.Errorf("%q: %s", raw, d)
		}
		if d := differs(raw, func(int) int { return int(piece) }); d != "" {
			t.Errorf("%q in pieces of %d: %s", raw, piece, d)
		}
	})
}

func BenchmarkParseResponse(b *testing.B) {
	raw := []byte("HTTP/1.1 200 OK\r\nServer: nginx/1.22.1\r\nDate: Sat, 21 Nov 2026 09:00:00 GMT\r\nContent-Type: text/plain\r\n" +
		"Content-Length: 5\r\nLast-Modified: Sat, 21 Nov 2026 08:00:00 GMT\r\nConnection: keep-alive\r\nETag: \"6556b1f0-5\"\r\nAccept-Ranges: bytes\r\n\r\nhello")
	var p Parser
	b.SetBytes(int64(len(raw)))
	b.ReportAllocs()
	for b.Loop() {
		p.Reset(true)
		if n, done, k := p.Feed(raw); n != len(raw) || !done || k != load.FailureNone {
			b.Fatal(n, done, k)
		}
	}
}
