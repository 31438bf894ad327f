package target

import (
	"bytes"
	"fmt"

	"github.com/tare-mesh/tare/internal/base/regular"
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
func Body(p *load.Profile) ([]byte, error) {
	if p.Body != nil {
		return p.Body, nil
	}
	if p.BodyFile == "" {
		return bytes.Repeat([]byte{'x'}, int(p.RequestSize)), nil
	}
	body, err := regular.ReadInput(p.BodyFile, load.MaxRequestSize)
	if err != nil {
		return nil, fmt.Errorf("read request body: %w", err)
	}
	return body, nil
}
