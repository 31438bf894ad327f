package load

import (
	"errors"
	"slices"
	"strings"

	"github.com/tare-mesh/tare/internal/load/template"
)

// validateUsers adds the mistakes in templates, cookies and think times.
func (p *Profile) validateUsers(m *mistakes) {
	if t := p.Think; t != nil {
		m.refuse(t.Min < 0 || t.Max < t.Min || t.Max == 0 || t.Max > MaxDuration, "the think time %v to %v is not between 0 and %v", t.Min, t.Max, MaxDuration)
		m.refuse(p.Rate > 0, "a think time needs a closed loop: with a rate the schedule decides when requests are sent")
	}
	users := p.Cookies || p.Think != nil
	m.refuse(users && p.mayHTTP2() && p.Streams > 1, "with cookies or a think time a connection is a user, who has one request at a time: %d streams", p.Streams)
	m.refuse(p.Cookies && p.NoKeepAlive, "cookies belong to a connection, and each request has a connection of its own")
	if p.Template != nil {
		*m = append(*m, p.validateTemplates()...)
	}
}

// validateTemplates compiles every text.
func (p *Profile) validateTemplates() (m mistakes) {
	check := func(text string, use template.Use) {
		_, _, err := p.Template.Compile(text, use, 0)
		m.add(err)
	}
	for i, raw := range p.Targets {
		origin, rest := SplitOrigin(raw)
		if template.Has(origin) {
			m.refuse(true, "target %d: expressions can be in the path and the query only", i+1)
			continue
		}
		check(rest, template.URL)
		call := p.ForTarget(i)
		for _, h := range call.Headers {
			check(h, template.Header)
			name, _, _ := strings.Cut(h, ":")
			m.refuse(p.Cookies && strings.EqualFold(name, "cookie") && template.Has(h), "with --cookies the Cookie header cannot contain a template: tare fills it from the server's cookies")
		}
		check(string(call.Body), template.Body)
		m.refuse(p.Protocol == ProtocolGRPC && template.Has(string(call.Body)), "expressions in the messages of gRPC: %w", errors.ErrUnsupported)
	}
	return slices.CompactFunc(m, func(a, b error) bool { return a.Error() == b.Error() })
}
