package target

import (
	"context"
	"fmt"
	"net/http"

	"github.com/tare-mesh/tare/internal/load"
	"github.com/tare-mesh/tare/internal/load/http1"
)

// ForHop is where to connect to for h. Its name is looked up when that is done first.
func ForHop(p *load.Profile, h *http1.Hop) (*Target, error) {
	t := &Target{URL: h.Url, Socket: p.Socket, protocol: load.ProtocolHTTP1, Addrs: literal(h.Url), Root: h, Bodily: p.Method != http.MethodHead}
	addrs, err := connectTo(context.Background(), p, h.Url, nil)
	if err != nil {
		return nil, err
	}
	if addrs != nil {
		t.Addrs = addrs
	}
	if h.Url.Scheme == "https" {
		if t.TLS, err = tlsConfig(p.TLS, h.Url.Hostname(), offered[load.ProtocolHTTP1]); err != nil {
			return nil, fmt.Errorf("redirect to %s: %w", h.Origin, err)
		}
	}
	return t, nil
}
