package target

import (
	"bytes"
	"fmt"
	"os"

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
	info, err := os.Stat(p.BodyFile)
	if err == nil && info.Size() > load.MaxRequestSize {
		err = fmt.Errorf("%s has %d bytes, more than %d", p.BodyFile, info.Size(), load.MaxRequestSize)
	}
	if err != nil {
		return nil, fmt.Errorf("read request body: %w", err)
	}
	body, err := os.ReadFile(p.BodyFile)
	if err != nil {
		return nil, fmt.Errorf("read request body: %w", err)
	}
	return body, nil
}
