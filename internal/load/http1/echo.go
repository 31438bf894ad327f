package http1

import (
	"bytes"

	"github.com/tare-mesh/tare/internal/load"
)

// takeEcho compares the received bytes with the expected ones.
func (p *Parser) takeEcho(b []byte) (used int, k load.Failure) {
	if len(p.Until) > 0 {
		return p.takeUntil(b)
	}
	rest := p.Echo[p.Body:]
	b = b[:min(len(b), len(rest))]
	if !bytes.Equal(b, rest[:len(b)]) {
		return 0, p.Unlike
	}
	if p.Body += int64(len(b)); len(b) == len(rest) {
		p.state = atDone
	}
	return len(b), load.FailureNone
}

// takeUntil reads an answer of any length, which begins and ends with the expected bytes.
func (p *Parser) takeUntil(b []byte) (used int, k load.Failure) {
	if seen := min(p.Body, int64(len(p.Echo))); !bytes.HasPrefix(b, p.Echo[seen:]) && !bytes.HasPrefix(p.Echo[seen:], b) {
		return 0, p.Unlike
	}
	before := len(p.partial)
	p.partial = append(p.partial, b...)
	used = len(b)
	if at := bytes.Index(p.partial, p.Until); at >= 0 {
		used, p.state = at+len(p.Until)-before, atDone
	}
	if p.Body += int64(used); p.state == atDone && p.Body < int64(len(p.Echo)) {
		return used, p.Unlike
	}
	p.partial = append(p.partial[:0], p.partial[max(0, len(p.partial)-len(p.Until)+1):]...) // the end may come in pieces
	return used, load.FailureNone
}
