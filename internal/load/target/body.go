package target

import (
	"bytes"

	"github.com/tare-mesh/tare/internal/load"
)

// echoed is the request of an echo: the body, or one byte.
func echoed(body []byte) []byte {
	if len(body) == 0 {
		return []byte{'x'}
	}
	return body
}

// Body is the body of every request.
func Body(p *load.Profile) []byte {
	if p.Body != nil {
		return p.Body
	}
	return bytes.Repeat([]byte{'x'}, int(p.RequestSize))
}
