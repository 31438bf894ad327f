package load

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/tare-mesh/tare/internal/load/template"
)

// validateUsers lists the mistakes in templates, cookies and think times.
func (p *Profile) validateUsers() (errs []error) {
	refuse := func(when bool, format string, args ...any) {
		if when {
			errs = append(errs, fmt.Errorf(format, args...))
		}
	}
	if t := p.Think; t != nil {
		refuse(t.Min < 0 || t.Max < t.Min || t.Max == 0 || t.Max > MaxDuration, "the think time %v to %v is not between 0 and %v", t.Min, t.Max, MaxDuration)
		refuse(p.Rate > 0, "a think time needs a closed loop: with a rate the schedule decides when requests are sent")
	}
	users := p.Cookies || p.Think != nil
	refuse(users && p.mayHTTP2() && p.Streams > 1, "with cookies or a think time a connection is a user, who has one request at a time: %d streams", p.Streams)
	refuse(p.Cookies && p.NoKeepAlive, "cookies belong to a connection, and each request has a connection of its own")
	unsupported := func(when bool, what string) {
		if when {
			errs = append(errs, fmt.Errorf("%s: %w", what, errors.ErrUnsupported))
		}
	}
	unsupported(p.Cookies && p.Follow > 0, "cookies of redirects that are followed")
	if p.Template != nil {
		unsupported(p.Follow > 0, "templates with redirects that are followed")
		errs = append(errs, p.validateTemplates()...)
	}
	return errs
}

// validateTemplates compiles every text.
func (p *Profile) validateTemplates() (errs []error) {
	check := func(text string, use template.Use) {
		if _, _, err := p.Template.Compile(text, use, 0); err != nil {
			errs = append(errs, err)
		}
	}
	for i, raw := range p.Targets {
		origin, rest := SplitOrigin(raw)
		if template.Has(origin) {
			errs = append(errs, fmt.Errorf("target %d: expressions can be in the path and the query only", i+1))
			continue
		}
		check(rest, template.URL)
		call := p.ForTarget(i)
		for _, h := range call.Headers {
			check(h, template.Header)
			if name, _, _ := strings.Cut(h, ":"); p.Cookies && strings.EqualFold(name, "cookie") && template.Has(h) {
				errs = append(errs, errors.New("with --cookies the Cookie header cannot contain a template: tare fills it from the server's cookies"))
			}
		}
		check(string(call.Body), template.Body)
		if p.Protocol == ProtocolGRPC && template.Has(string(call.Body)) {
			errs = append(errs, fmt.Errorf("expressions in the messages of gRPC: %w", errors.ErrUnsupported))
		}
	}
	return slices.CompactFunc(errs, func(a, b error) bool { return a.Error() == b.Error() })
}
