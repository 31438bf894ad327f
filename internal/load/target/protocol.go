package target

import (
	"context"
	"crypto/tls"
	"slices"
	"strings"

	"github.com/tare-mesh/tare/internal/load"
)

// choose finds the protocol of an automatic choice: what the server at t chooses, in
// a connection made for nothing else.
func chooseProtocol(ctx context.Context, p *load.Profile, t *Target) (string, error) {
	if t.URL.Scheme != "https" || p.NoKeepAlive {
		return load.ProtocolHTTP1, nil
	}
	config, err := tlsConfig(p.TLS, t.URL.Hostname(), offered[load.ProtocolHTTP2])
	if err != nil {
		return "", err
	}
	ctx, cancel := context.WithTimeout(ctx, p.Timeout)
	defer cancel()
	network, address := t.Dial()
	conn, err := (&tls.Dialer{Config: config}).DialContext(ctx, network, address)
	if err != nil {
		return "", err
	}
	defer conn.Close()
	if conn.(*tls.Conn).ConnectionState().NegotiatedProtocol == AlpnHTTP2 {
		return load.ProtocolHTTP2, nil
	}
	return load.ProtocolHTTP1, nil
}

// Protocols lists the targets' protocols, each once.
func Protocols(targets []Target) string {
	var names []string
	for i := range targets {
		if !slices.Contains(names, targets[i].protocol) {
			names = append(names, targets[i].protocol)
		}
	}
	return strings.Join(names, ", ")
}
