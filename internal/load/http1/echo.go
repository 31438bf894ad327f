package http1

import (
	"bytes"

	"github.com/tare-mesh/tare/internal/load"
)

// takeEcho compares the received bytes with the expected ones.
func (p *Parser) takeEcho(b []byte) (used int, k load.Failure) {
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
