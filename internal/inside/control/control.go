// Package control is a small control plane for Envoy. It holds the routes and endpoints of services, and writes each
// change to files that sidecars watch (xDS by the file system), after a delay that can be set.
package control

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"sync"
	"time"

	"github.com/tare-mesh/tare/internal/base/httpserver"
	"github.com/tare-mesh/tare/internal/load"
)

// Endpoint is the address of one replica.
type Endpoint struct {
	IP   string `json:"ip"`
	Port int    `json:"port"`
}

// Plane is a control plane. It answers PUT /services with the endpoints of services that it does not have yet. PUT
// /services/NAME/version changes a route, and PUT /services/NAME/weight shifts all weight to a version. PUT
// /services/NAME/endpoints replaces endpoints. PUT /background has the number of services that no request calls, and PUT
// /background/change changes one of them.
type Plane struct {
	*httpserver.TokenServer
	dir string
	Options
	due chan change

	mu       sync.Mutex
	services map[string]*service
	background
	failed error // of a change that could not be written
}

// Options set the delay of a control plane, a planted mistake, and its further routes.
type Options struct {
	Delay  time.Duration // before each change
	Flap   time.Duration // a mistake: after a change of a route the old one comes back, after this time and for as long
	Routes int           // further routes of each service, which no request matches
}

// service is the state of a service as it is written next.
type service struct {
	version   int
	endpoints []Endpoint
	written   int // files of endpoints, each with a version of its own
}

// change is written at an instant.
type change struct {
	at    time.Time
	write func() error
}

// Bounds of requests.
const (
	maxBody  = 4 << 20 // bytes
	maxQueue = 10000   // changes that wait for their delay
)

// New returns a control plane that writes to dir.
func New(token, dir string, o Options) (*Plane, error) {
	server, err := httpserver.NewTokenServer(token)
	if err != nil {
		return nil, err
	}
	p := &Plane{TokenServer: server, dir: dir, Options: o, due: make(chan change, maxQueue), services: map[string]*service{}}
	p.HandleFunc("PUT /services", p.register)
	p.HandleFunc("PUT /services/{service}/version", p.putRoute(func(int) []int { return nil }))
	p.HandleFunc("PUT /services/{service}/weight", p.putRoute(func(old int) []int { return []int{old} }))
	p.HandleFunc("PUT /services/{service}/endpoints", p.putEndpoints)
	p.HandleFunc("PUT /background", p.putBackground)
	p.HandleFunc("PUT /background/change", p.changeBackground)
	return p, p.writeBackground()
}

// Serve serves on l, and writes changes when they are due, until ctx ends.
func (p *Plane) Serve(ctx context.Context, l net.Listener) error {
	go p.write(ctx)
	return p.TokenServer.Serve(ctx, l)
}

// write writes changes in their order. All have the same delay, so that the first is due first.
func (p *Plane) write(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case c := <-p.due:
			timer := time.NewTimer(time.Until(c.at))
			select {
			case <-ctx.Done():
				timer.Stop()
				return
			case <-timer.C:
			}
			if err := c.write(); err != nil {
				p.mu.Lock()
				p.failed = errors.Join(p.failed, err)
				p.mu.Unlock()
			}
		}
	}
}

// name is the form of a service's name. It becomes part of a file's name.
var name = regexp.MustCompile(`^[A-Za-z0-9]([A-Za-z0-9-]{0,62})$`)

// register adds services. Every sidecar registers those that it calls, so that a service may come several times.
func (p *Plane) register(w http.ResponseWriter, r *http.Request) {
	var all map[string][]Endpoint
	if !httpserver.Decode(w, r, maxBody, &all) {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, n := range slices.Sorted(maps.Keys(all)) {
		if !name.MatchString(n) {
			httpserver.Refuse(w, http.StatusBadRequest, "%.70q is not the name of a service", n)
			return
		}
		if p.services[n] != nil {
			continue
		}
		s := &service{endpoints: all[n]}
		if err := errors.Join(p.writeRoutes(n, s.version), p.writeEndpoints(n, s.next(), s.endpoints)); err != nil {
			httpserver.Refuse(w, http.StatusInternalServerError, "%v", err)
			return
		}
		p.services[n] = s
	}
	httpserver.Answer(w, http.StatusOK, struct{}{})
}

// putRoute changes the version of a route. beside returns the versions that the new route has beside it, without weight.
func (p *Plane) putRoute(beside func(old int) []int) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		var version int
		p.put(w, r, &version, func(name string, s *service) func() error {
			old := s.version
			s.version = version
			return func() error {
				err := p.writeRoutes(name, version, beside(old)...)
				if p.Flap == 0 || err != nil {
					return err
				}
				time.Sleep(p.Flap)
				err = p.writeRoutes(name, old)
				time.Sleep(p.Flap)
				return errors.Join(err, p.writeRoutes(name, version, beside(old)...))
			}
		})
	}
}

func (p *Plane) putEndpoints(w http.ResponseWriter, r *http.Request) {
	var endpoints []Endpoint
	p.put(w, r, &endpoints, func(name string, s *service) func() error {
		s.endpoints = endpoints
		n := s.next()
		return func() error { return p.writeEndpoints(name, n, endpoints) }
	})
}

// put changes a service. The answer comes at once, and the file is written after the delay.
func (p *Plane) put(w http.ResponseWriter, r *http.Request, body any, edit func(string, *service) func() error) {
	at := time.Now().Add(p.Delay)
	if !httpserver.Decode(w, r, maxBody, body) {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	n := r.PathValue("service")
	s := p.services[n]
	if s == nil {
		httpserver.Refuse(w, http.StatusNotFound, "there is no service %.70q", n)
		return
	}
	p.enqueue(w, at, func() func() error { return edit(n, s) })
}

// enqueue writes what edit returns at an instant. p.mu is held.
func (p *Plane) enqueue(w http.ResponseWriter, at time.Time, edit func() func() error) {
	switch {
	case p.failed != nil:
		httpserver.Refuse(w, http.StatusInternalServerError, "%v", p.failed)
	case len(p.due) == cap(p.due):
		httpserver.Refuse(w, http.StatusTooManyRequests, "%d changes wait", len(p.due))
	default:
		p.due <- change{at, edit()}
		httpserver.Answer(w, http.StatusOK, struct{}{})
	}
}

func (s *service) next() int {
	s.written++
	return s.written
}

// object is a message of Envoy as JSON.
type object = map[string]any

// writeRoutes writes the route to a service (RDS). Answers carry its version. Versions beside it have no weight.
func (p *Plane) writeRoutes(service string, version int, beside ...int) error {
	cluster := "outbound-" + service
	weighted := []object{}
	for _, v := range append(beside, version) {
		weight := 0
		if v == version {
			weight = 100
		}
		weighted = append(weighted, object{"name": cluster, "weight": weight, "response_headers_to_add": versionOf(v)})
	}
	route := object{"match": object{"prefix": "/"}, "route": object{"cluster": cluster, "timeout": "0s"}, "response_headers_to_add": versionOf(version)}
	if len(beside) > 0 {
		route = object{"match": object{"prefix": "/"}, "route": object{"weighted_clusters": object{"clusters": weighted}, "timeout": "0s"}}
	}
	routes := []object{}
	for n := range p.Routes {
		routes = append(routes, object{"match": object{"prefix": fmt.Sprintf("/known/%d", n+1)}, "direct_response": object{"status": http.StatusNotFound}})
	}
	return p.publish(service+"-routes.json", version, object{
		"@type":         "type.googleapis.com/envoy.config.route.v3.RouteConfiguration",
		"name":          cluster,
		"virtual_hosts": []object{{"name": cluster, "domains": []string{"*"}, "routes": append(routes, route)}},
	})
}

// versionOf is the header of answers by a version of a route.
func versionOf(version int) []object {
	return []object{{"header": object{"key": load.VersionHeader, "value": fmt.Sprintf("%d %%UPSTREAM_REMOTE_ADDRESS%%", version)}}}
}

// writeEndpoints writes the endpoints of a service (EDS).
func (p *Plane) writeEndpoints(service string, version int, endpoints []Endpoint) error {
	all := []object{}
	for _, e := range endpoints {
		all = append(all, object{"endpoint": object{"address": object{"socket_address": object{"address": e.IP, "port_value": e.Port}}}})
	}
	return p.publish(service+"-endpoints.json", version, object{
		"@type":        "type.googleapis.com/envoy.config.endpoint.v3.ClusterLoadAssignment",
		"cluster_name": "outbound-" + service,
		"endpoints":    []object{{"lb_endpoints": all}},
	})
}

// publish moves a response of xDS to a file: Envoy reads a file when it is replaced.
func (p *Plane) publish(file string, version int, resources ...object) error {
	text, err := json.Marshal(object{"version_info": fmt.Sprint(version), "resources": resources})
	if err != nil {
		return err
	}
	path := filepath.Join(p.dir, file)
	if err := os.WriteFile(path+".new", text, 0o600); err != nil {
		return err
	}
	return os.Rename(path+".new", path)
}
