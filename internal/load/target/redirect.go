package target

import (
	"fmt"
	"net/http"

	"github.com/tare-mesh/tare/internal/load"
	"github.com/tare-mesh/tare/internal/load/http1"
)

// ForHop is where to connect to for h. Its name is looked up when that is done first.
func ForHop(p *load.Profile, h *http1.Hop) (*Target, error) {
	t := &Target{URL: h.Url, Socket: p.Socket, protocol: load.ProtocolHTTP1, Addrs: literal(h.Url), Root: h, Bodily: p.Method != http.MethodHead}
	var err error
	if t.places, err = replacements(p, h.Url); err != nil {
		return nil, err
	}
	if t.places != nil {
		t.Addrs = literals(t.places) // never the URL's own
	}
	if h.Url.Scheme == "https" {
		if t.TLS, err = tlsConfig(p.TLS, h.Url.Hostname(), offered[load.ProtocolHTTP1]); err != nil {
			return nil, fmt.Errorf("redirect to %s: %w", h.Origin, err)
		}
	}
	return t, nil
}
