package load

import (
	"errors"
	"fmt"
	"slices"
	"strings"
)

// validateHTTP3 lists the mistakes in a load over HTTP/3.
func (p *Profile) validateHTTP3() (errs []error) {
	if p.Protocol != ProtocolHTTP3 {
		return nil
	}
	for _, raw := range p.Targets {
		if u, err := ParseTarget(raw); err == nil && u.Scheme != "https" {
			errs = append(errs, fmt.Errorf("target %s: HTTP/3 needs https", raw))
		}
	}
	if p.Streams < 1 || p.Streams > maxStreams {
		errs = append(errs, fmt.Errorf("%d streams are not between 1 and %d", p.Streams, maxStreams))
	}
	headers := p.Headers
	for _, c := range p.Calls {
		headers = slices.Concat(headers, c.Headers)
	}
	for _, wish := range []struct {
		found bool
		what  string
	}{
		{p.Engine != EngineHTTP3, "engine " + p.Engine},
		{slices.ContainsFunc(headers, func(h string) bool {
			name, _, _ := strings.Cut(h, ":")
			return slices.Contains(forbiddenH2, strings.ToLower(name))
		}), "a header of HTTP/1.1's connections"},
	} {
		if wish.found {
			errs = append(errs, fmt.Errorf("%s with protocol %s: %w", wish.what, p.Protocol, errors.ErrUnsupported))
		}
	}
	return errs
}
