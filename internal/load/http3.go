package load

import "errors"

// validateHTTP3 adds the mistakes in a load over HTTP/3.
func (p *Profile) validateHTTP3(m *mistakes) {
	if p.Protocol != ProtocolHTTP3 {
		return
	}
	for _, raw := range p.Targets {
		u, err := ParseTarget(raw)
		m.refuse(err == nil && u.Scheme != "https", "target %s: HTTP/3 needs https", raw)
	}
	p.validateStreams(m)
	m.refuse(p.Engine != EngineHTTP3, "engine %s with protocol %s: %w", p.Engine, p.Protocol, errors.ErrUnsupported)
	m.refuse(p.connectionHeaders() != nil, "a header of HTTP/1.1's connections with protocol %s: %w", p.Protocol, errors.ErrUnsupported)
}
