package experiment

import (
	"fmt"
	"reflect"

	"github.com/tare-mesh/tare/internal/base/hint"
	"github.com/tare-mesh/tare/internal/experiment/app"
	"github.com/tare-mesh/tare/internal/experiment/mesh"
	"github.com/tare-mesh/tare/internal/load"
)

type loadRules struct{ validation }

func (v loadRules) validate() {
	v.gateway()
	v.supported()
	v.checks()
	v.requests()
	v.spread()
	v.webSocket()
	v.profile()
	v.workers()
	each(v.validation, "factors."+ConnectionRateFactor, LevelsOf[int](v.e.Factors, ConnectionRateFactor), v.connectionRate)
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

// connectionRate reports new connections without requests for them.
func (v loadRules) connectionRate(path string, x int) {
	if x == 0 {
		return
	}
	for _, r := range levelsOr(v.e, RateFactor, RateLevel{Rate: DefaultLevels().Rate}) {
		if r.Rate == Max {
			v.report(path, "write numbers in factors.rate", "new connections per second need a rate of requests, not max")
			return
		}
		if float64(x) > float64(r.Rate) {
			v.report(path, fmt.Sprintf("write at most %s, or raise factors.rate", clip(r.Rate.String())),
				"%d new connections/s with %s requests/s: each connection carries at least one request", x, clip(r.Rate.String()))
			return
		}
	}
	for _, p := range v.e.protocols() {
		if !load.Supports(p, load.NewConnections) {
			v.report(path, "remove it, or the protocol", "protocol %s does not support %s", p, load.NewConnections)
			return
		}
	}
}

// supported reports features of the load that a protocol lacks.
func (v loadRules) supported() {
	l, c := v.e.Load, v.e.Load.Checks
	for _, use := range []struct {
		path    string
		used    bool
		feature load.Feature
	}{
		{"load.headers", len(l.Headers) > 0, load.Headers},
		{"load.checks.status", len(c.Status) > 0, load.StatusChecks},
		{"load.checks.bodyHas", len(c.BodyHas) > 0, load.BodyChecks},
		{"load.checks.bodyLacks", len(c.BodyLacks) > 0, load.BodyChecks},
		{"load.checks.jsonHas", len(c.JSONHas) > 0, load.JSONChecks},
		{"load.checks.jsonLacks", len(c.JSONLacks) > 0, load.JSONChecks},
		{"load.requests", len(l.Requests) > 0, load.SeveralRequests},
	} {
		for _, p := range v.requestProtocols() {
			if use.used && !load.Supports(p, use.feature) {
				help := "remove it, or the protocol"
				if p == app.WebSocket && use.feature == load.SeveralRequests {
					help = "write load.webSocket: {message: TEXT}, and the path in factors.route"
				}
				v.report(use.path, help, "protocol %s does not support %s", p, use.feature)
				break
			}
		}
	}
}

// checks reports conditions that no response can meet.
func (v loadRules) checks() {
	c := v.e.Load.Checks
	for _, list := range []struct {
		path  string
		texts []string
		field bool
	}{{"bodyHas", c.BodyHas, false}, {"bodyLacks", c.BodyLacks, false}, {"jsonHas", c.JSONHas, true}, {"jsonLacks", c.JSONLacks, true}} {
		for i, text := range list.texts {
			path := fmt.Sprintf("load.checks.%s[%d]", list.path, i)
			switch {
			case text == "":
				v.report(path, "", "the text is empty")
			case list.field:
				if _, err := load.ParseJSONPath(text); err != nil {
					v.report(path, "write errors, or data.errors for a nested field", "%q is not a field name", clip(text))
				}
			}
		}
	}
	if n := len(c.JSONHas) + len(c.JSONLacks); n > load.MaxJSONPaths {
		v.report("load.checks", "", "%d JSON fields, max %d", n, load.MaxJSONPaths)
	}
	for _, p := range v.e.protocols() {
		if p == app.WebSocket && !reflect.ValueOf(c).IsZero() && v.e.Load.WebSocket.Answer != load.AnswerMessage {
			v.report("load.checks", "write load.webSocket: {answer: message}", "protocol %s compares each answer with its message", p)
		}
		for i, s := range c.Status {
			if load.Supports(p, load.StatusChecks) && !load.HasStatus(p, string(s)) {
				v.report(fmt.Sprintf("load.checks.status[%d]", i), "", "protocol %s has no status %s", p, s)
			}
		}
	}
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
