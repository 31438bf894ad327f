package load

import "slices"

// features are the properties of requests that some protocols lack.
var features = []struct {
	field, name string // of the profile, and in messages
	used        func(*Profile) bool
	lacking     []string // protocols
}{
	{"headers", "headers", func(p *Profile) bool { return len(p.Headers) > 0 }, []string{ProtocolTCP}},
	{"expectStatus", "checks of the status", func(p *Profile) bool { return len(p.ExpectStatus) > 0 }, []string{ProtocolTCP, ProtocolWebSocket}},
	{"bodyHas", "checks of the body", func(p *Profile) bool { return len(p.BodyHas) > 0 }, []string{ProtocolTCP}},
	{"bodyLacks", "checks of the body", func(p *Profile) bool { return len(p.BodyLacks) > 0 }, []string{ProtocolTCP}},
	{"jsonHas", "checks of JSON fields", func(p *Profile) bool { return len(p.JSONHas) > 0 }, []string{ProtocolTCP, ProtocolGRPC}},
	{"jsonLacks", "checks of JSON fields", func(p *Profile) bool { return len(p.JSONLacks) > 0 }, []string{ProtocolTCP, ProtocolGRPC}},
	{"calls", "several requests", func(p *Profile) bool { return len(p.Calls) > 0 || p.Protocol == ProtocolWebSocket && p.sharesHosts() }, []string{ProtocolTCP, ProtocolWebSocket}},
	{"connectionRate", "new connections per second", func(p *Profile) bool { return p.ConnectionRate != 0 }, []string{ProtocolWebSocket}},
	{"noKeepAlive", "a connection for every request", func(p *Profile) bool { return p.NoKeepAlive }, []string{ProtocolHTTP2, ProtocolGRPC}},
}

// Supports reports whether requests of a protocol can have a field of the profile.
func Supports(protocol, field string) bool {
	for _, f := range features {
		if f.field == field {
			return !slices.Contains(f.lacking, protocol)
		}
	}
	return true
}

// sharesHosts reports whether several targets have one host.
func (p *Profile) sharesHosts() bool {
	origins, _ := p.Origins()
	return len(p.Targets) > 1 && len(origins) < len(p.Targets)
}
