package experiment

import (
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/tare-mesh/tare/internal/base/hint"
	"github.com/tare-mesh/tare/internal/base/printable"
	"github.com/tare-mesh/tare/internal/experiment/app"
	"github.com/tare-mesh/tare/internal/experiment/mesh"
	"github.com/tare-mesh/tare/internal/load"
)

type loadRules struct{ validation }

func (v loadRules) validate() {
	v.gateway()
	v.requests()
	v.profiles()
	v.spread()
	v.webSocket()
	v.profile()
	v.workers()
}

func (v loadRules) workers() {
	l := v.e.Load
	if !v.doc.Sound("load.workers") {
		return
	}
	connections := LevelsOf[int](v.e.Factors, "connections")
	for i, c := range connections {
		if c >= 1 && c < l.Workers {
			v.report(fmt.Sprintf("factors.connections[%d]", i), "every worker needs a connection of its own",
				"%d is fewer than the %d workers of the load generator", c, l.Workers)
		}
	}
	if c := DefaultLevels().Connections; len(connections) == 0 && c < l.Workers {
		v.report("load.workers", "write more in factors.connections", "%d is more than the %d connections", l.Workers, c)
	}
}

// profilePaths are the fields of the file with the fields of a profile, by its names.
var profilePaths = map[string]string{
	"headers": "load.headers", "expectStatus": "load.checks.status", "bodyHas": "load.checks.bodyHas", "bodyLacks": "load.checks.bodyLacks", "jsonHas": "load.checks.jsonHas",
	"jsonLacks": "load.checks.jsonLacks", "checks": "load.checks", "calls": "load.requests", "webSocket.messages": "load.webSocket.messages",
}

// profiles reports what the rules of every load find, with each protocol and each rate of new connections.
func (v loadRules) profiles() {
	l, c := v.e.Load, v.e.Load.Checks
	p := load.Profile{Targets: []string{"http://entry/package.Service/Method"}, Measure: time.Second, ExpectSize: -1, ExpectStatus: printable.Texts(c.Status, func(s Status) string { return string(s) }),
		BodyHas: c.BodyHas, BodyLacks: c.BodyLacks, JSONHas: c.JSONHas, JSONLacks: c.JSONLacks, Calls: make([]load.Call, min(1, len(l.Requests)))}
	for _, name := range sortedKeys(l.Headers) {
		p.Headers = append(p.Headers, name+": "+l.Headers[name])
	}
	for _, p.Protocol = range v.requestProtocols() {
		if p.WebSocket = nil; p.Protocol == app.WebSocket {
			p.WebSocket = &load.WebSocket{Answer: l.WebSocket.Answer, Messages: l.WebSocket.Messages}
		}
		for _, m := range p.Mistakes() {
			field, index, indexed := strings.Cut(m.Field, "[")
			path, help := profilePaths[field], hint.Of(m)
			if indexed {
				path += "[" + index
			}
			if field == "calls" && p.Protocol == app.WebSocket {
				help = "write load.webSocket: {message: TEXT}, and the path in factors.route"
			}
			if path != "" {
				v.report(path, help, "%v", m)
			}
		}
	}
	p.Calls, p.Rate = nil, math.Inf(1)
	for _, r := range levelsOr(v.e, RateFactor, RateLevel{Rate: DefaultLevels().Rate}) {
		p.Rate = min(p.Rate, float64(r.Rate)) // 0 is max
	}
	each(v.validation, "factors."+ConnectionRateFactor, LevelsOf[int](v.e.Factors, ConnectionRateFactor), func(path string, x int) {
		p.ConnectionRate = float64(x)
		for _, p.Protocol = range v.e.protocols() {
			for _, m := range p.Mistakes() {
				if m.Field == "connectionRate" {
					v.report(path, hint.Of(m), "%v", m)
				}
			}
		}
	})
}

// gateway checks that every mesh has an ingress gateway, if the load enters there.
func (v loadRules) gateway() {
	const field = "load.entry"
	if !v.e.Gateway() {
		each(v.validation, "factors.mesh", v.e.meshes(), func(path, name string) {
			if d, ok := v.definition(name); ok && !v.local() && d.OnlyGateway() {
				v.report(path, "write load: {entry: gateway}", "mesh %s is a gateway, and the load does not enter there", name)
			}
		})
	}
	if !v.doc.Has(field) {
		return
	}
	if v.local() {
		v.onClusters(field)
		return
	}
	if !v.e.Gateway() {
		return
	}
	if v.e.Platform.Expose == "portForward" {
		v.report("platform.expose", "write nodePort, or loadBalancer if the cluster has one", "a forwarded port bypasses the gateway: it ends in a pod of the entry")
	}
	gateways := 0
	each(v.validation, "factors.mesh", v.e.meshes(), func(path, name string) {
		d, ok := v.definition(name)
		if !ok || d.On(mesh.OnKubernetes) != nil {
			return // meshRules reports it
		}
		g, err := d.Ingress()
		if err != nil {
			v.report(path, hint.Of(err), "%v", err)
		}
		if g != nil {
			v.routable(*g, name)
		}
		if g != nil || err != nil {
			gateways++
		}
	})
	if gateways == 0 && v.names.Definitions != nil && v.doc.Sound("factors.mesh") {
		v.report(field, "add a mesh with a gateway to factors.mesh, or remove it", "factors.mesh has no mesh, so there is no gateway")
	}
}

// routable checks that the gateway's routes support the entry's protocol, or every level of the factor.
func (v loadRules) routable(g mesh.Gateway, name string) {
	path, protocols := "factors.protocol", v.e.protocols()
	if own := v.entryProtocol(); own != "" {
		path, protocols = "application", []string{own}
	}
	for i, p := range protocols {
		at := path
		if at == "factors.protocol" {
			at = fmt.Sprintf("%s[%d]", path, i)
		}
		if err := g.Carries(p); err != nil {
			v.report(at, "write load: {entry: service}", "mesh %s: %v", name, err)
		}
	}
}
