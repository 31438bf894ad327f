package load

import (
	"errors"
	"slices"
)

// Feature is a property of requests that some protocols cannot have.
type Feature string

// Features that an experiment can have too.
const (
	Headers         Feature = "headers"
	StatusChecks    Feature = "checks of the status"
	BodyChecks      Feature = "checks of the body"
	JSONChecks      Feature = "checks of JSON fields"
	SeveralRequests Feature = "several requests"
	NewConnections  Feature = "new connections per second"
)

// features has every feature with the protocols that lack it.
var features = []struct {
	name    Feature
	used    func(*Profile) bool
	lacking []string
}{
	{Headers, func(p *Profile) bool { return len(p.Headers) > 0 }, []string{ProtocolTCP}},
	{StatusChecks, func(p *Profile) bool { return len(p.ExpectStatus) > 0 }, []string{ProtocolTCP, ProtocolWebSocket}},
	{BodyChecks, func(p *Profile) bool { return len(p.BodyHas)+len(p.BodyLacks)+len(p.JSONHas)+len(p.JSONLacks) > 0 }, []string{ProtocolTCP}},
	{JSONChecks, func(p *Profile) bool { return len(p.JSONHas)+len(p.JSONLacks) > 0 }, []string{ProtocolTCP, ProtocolGRPC}},
	{SeveralRequests, func(p *Profile) bool { return len(p.Calls) > 0 || p.Protocol == ProtocolWebSocket && p.sharesHosts() }, []string{ProtocolTCP, ProtocolWebSocket}},
	{NewConnections, func(p *Profile) bool { return p.ConnectionRate != 0 }, []string{ProtocolWebSocket}},
	{"a connection for every request", func(p *Profile) bool { return p.NoKeepAlive }, []string{ProtocolHTTP2, ProtocolGRPC}},
}

// Supports reports whether requests of a protocol can have a feature.
func Supports(protocol string, f Feature) bool {
	for _, row := range features {
		if row.name == f {
			return !slices.Contains(row.lacking, protocol)
		}
	}
	return true
}

// validateFeatures adds the features that the protocol lacks.
func (p *Profile) validateFeatures(m *mistakes) {
	for _, row := range features {
		m.refuse(row.used(p) && slices.Contains(row.lacking, p.Protocol), "%s with protocol %s: %w", row.name, p.Protocol, errors.ErrUnsupported)
	}
}

// sharesHosts reports whether several targets have one host.
func (p *Profile) sharesHosts() bool {
	origins, _ := p.Origins()
	return len(p.Targets) > 1 && len(origins) < len(p.Targets)
}
