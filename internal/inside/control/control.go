// Package control is a small control plane for Envoy. It holds the routes and endpoints of services, and writes each
// change to files that sidecars watch (xDS by the file system), after a delay that can be set.
package control

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tare-mesh/tare/internal/base/httpserver"
	"github.com/tare-mesh/tare/internal/base/wait"
	"github.com/tare-mesh/tare/internal/experiment/mesh"
	"github.com/tare-mesh/tare/internal/load"
)

// Endpoint is the address of one replica.
type Endpoint struct {
	IP   string `json:"ip"`
	Port int    `json:"port"`
}

// Plane is a control plane. It answers PUT /services with the endpoints of services that it does not have yet, and PUT /inbound
// with a service whose sidecars take a policy. PUT /services/NAME/version changes a route, PUT /services/NAME/weight shifts all
// weight to a version, and PUT /services/NAME/route adds one before the others. PUT /services/NAME/endpoints replaces endpoints, and
// PUT /services/NAME/policy denies requests. PUT /certificates/POD renews a certificate. PUT /background has the number of services
// that no request calls, and PUT /background/change changes one of them. GET /changes has the instants of the other changes.
type Plane struct {
	*httpserver.TokenServer
	dir string
	Options
	moments moments
	due     chan change
	late    chan change

	mu       sync.Mutex
	services map[string]*service
	background
	failed error // of a change that could not be written
}

// Options set the delay of a control plane, planted mistakes, and its further routes.
type Options struct {
	Delay  time.Duration // before each change
	Flap   time.Duration // a mistake: after a change of a route the old one comes back, after this time and for as long
	Late   time.Duration // a mistake: a second file of each route changes this much later
	Routes int           // further routes of each service, which no request matches
}

// service is the state of a service as it is written next.
type service struct {
	Routes    routes     `json:"routes"`
	Endpoints []Endpoint `json:"endpoints"`
	Denied    bool       `json:"denied"`
	Written   int        `json:"written"` // files of endpoints and policies, each with a version of its own
}

// routes are the routes to a service: the version that requests get, versions beside it without weight, and routes behind it.
type routes struct {
	Version int   `json:"version"`
	Beside  []int `json:"beside,omitempty"`
	Behind  []int `json:"behind,omitempty"`
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
	p := &Plane{TokenServer: server, dir: dir, Options: o, due: make(chan change, maxQueue), late: make(chan change, maxQueue), services: map[string]*service{}, background: background{streams: streams{}}}
	p.HandleFunc("PUT /services", httpserver.Handle(maxBody, p.register))
	p.HandleFunc("PUT /inbound", httpserver.Handle(maxBody, p.registerInbound))
	p.HandleFunc("PUT /services/{service}/version", p.putRoute(func(_ int, r *routes) { r.Beside = nil }))
	p.HandleFunc("PUT /services/{service}/weight", p.putRoute(func(old int, r *routes) { r.Beside = []int{old} }))
	p.HandleFunc("PUT /services/{service}/route", p.putRoute(func(old int, r *routes) { r.Beside, r.Behind = nil, append([]int{old}, r.Behind...) }))
	p.HandleFunc("PUT /services/{service}/endpoints", httpserver.Handle(maxBody, p.putEndpoints))
	p.HandleFunc("GET /changes", p.moments.list)
	p.HandleFunc("PUT /background", httpserver.Handle(maxBody, p.putBackground))
	p.HandleFunc("PUT /background/change", httpserver.Handle(maxBody, p.changeBackground))
	p.HandleFunc("PUT /services/{service}/policy", httpserver.Handle(maxBody, p.putPolicy))
	p.HandleFunc("PUT /certificates/{pod}", httpserver.Handle(maxBody, p.putCertificate))
	return p, errors.Join(p.restore(), p.restoreBackground())
}

// stateFile ends the names of files with the state of services.
const stateFile = "-state.json"

// restore reads and writes the services of an earlier process in the same directory.
func (p *Plane) restore() error {
	files, err := filepath.Glob(filepath.Join(p.dir, "*"+stateFile))
	if err != nil {
		return err
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		s := &service{}
		if err == nil {
			err = json.Unmarshal(text, s)
		}
		if err != nil {
			return fmt.Errorf("restore %s: %w", file, err)
		}
		n := strings.TrimSuffix(filepath.Base(file), stateFile)
		p.services[n] = s
		if err := errors.Join(p.writeRoutes(n, s.Routes), p.writeEndpoints(n, s.next(), s.Endpoints), p.writePolicy(n, s.next(), s.Denied)); err != nil {
			return err
		}
	}
	return nil
}

// Serve serves on l, and writes changes when they are due, until ctx ends.
func (p *Plane) Serve(ctx context.Context, l net.Listener) error {
	go p.write(ctx, p.due)
	go p.write(ctx, p.late)
	return p.TokenServer.Serve(ctx, l)
}

// write writes changes in their order. All have the same delay, so that the first is due first.
func (p *Plane) write(ctx context.Context, due <-chan change) {
	for {
		select {
		case <-ctx.Done():
			return
		case c := <-due:
			if wait.For(ctx, time.Until(c.at)) != nil {
				return
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
func (p *Plane) register(_ *http.Request, all map[string][]Endpoint) (done struct{}, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, n := range slices.Sorted(maps.Keys(all)) {
		if !name.MatchString(n) {
			return done, errNotService(n)
		}
		if p.services[n] != nil {
			continue
		}
		s := &service{Endpoints: all[n]}
		if err := errors.Join(p.writeRoutes(n, s.Routes), p.writeLate(n, s.Routes), p.writeEndpoints(n, s.next(), s.Endpoints), p.save(n, s)); err != nil {
			return done, err
		}
		p.services[n] = s
	}
	return done, nil
}

func errNotService(n string) error {
	return httpserver.Fail(http.StatusBadRequest, "%.70q is not the name of a service", n)
}

// registerInbound writes the policy before a service, which admits requests, unless there is one. The name may be empty.
func (p *Plane) registerInbound(_ *http.Request, n string) (done struct{}, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if n != "" && !name.MatchString(n) {
		return done, errNotService(n)
	}
	return done, p.admit(n)
}

// admit writes a policy without rules, unless the service has one.
func (p *Plane) admit(n string) error {
	if _, err := os.Stat(filepath.Join(p.dir, n+inboundFile)); !name.MatchString(n) || err == nil {
		return nil
	}
	return p.writePolicy(n, 0, false)
}

// putRoute changes the version of a route. edit changes what is beside and behind it, where it had an old version.
func (p *Plane) putRoute(edit func(old int, r *routes)) http.HandlerFunc {
	return httpserver.Handle(maxBody, func(r *http.Request, version int) (struct{}, error) {
		return p.put(r, func(name string, s *service) func() error {
			old := s.Routes
			edit(old.Version, &s.Routes)
			s.Routes.Version = version
			now := s.Routes
			if p.Late > 0 && len(p.late) < cap(p.late) {
				p.late <- change{time.Now().Add(p.Delay + p.Late), func() error { return p.writeLate(name, now) }}
			}
			return func() error {
				err := p.writeRoutes(name, now)
				if p.Flap == 0 || err != nil {
					return err
				}
				time.Sleep(p.Flap)
				err = p.writeRoutes(name, old)
				time.Sleep(p.Flap)
				return errors.Join(err, p.writeRoutes(name, now))
			}
		})
	})
}

func (p *Plane) putEndpoints(r *http.Request, endpoints []Endpoint) (struct{}, error) {
	return p.put(r, func(name string, s *service) func() error {
		s.Endpoints = endpoints
		n := s.next()
		return func() error { return p.writeEndpoints(name, n, endpoints) }
	})
}

func (p *Plane) putPolicy(r *http.Request, denied bool) (struct{}, error) {
	return p.put(r, func(name string, s *service) func() error {
		s.Denied = denied
		n := s.next()
		return func() error { return p.writePolicy(name, n, denied) }
	})
}

// Certificate has the paths of a certificate and its key, in PEM.
type Certificate struct {
	Certificate string `json:"certificate"`
	Key         string `json:"key"`
}

// putCertificate gives a sidecar a certificate: the first one at once, a later one after the delay. null is none.
func (p *Plane) putCertificate(r *http.Request, c *Certificate) (done struct{}, err error) {
	received, pod := time.Now(), r.PathValue("pod")
	p.mu.Lock()
	defer p.mu.Unlock()
	_, err = os.Stat(filepath.Join(p.dir, pod+certificateFile))
	switch {
	case !name.MatchString(pod):
		return done, httpserver.Fail(http.StatusBadRequest, "%.70q is not the name of a pod", pod)
	case c == nil:
		return done, nil
	case err == nil:
		return done, p.enqueue(received.Add(p.Delay), func() (func() error, error) {
			return p.moments.timed(received, func() error { return p.writeCertificate(pod, *c) }), nil
		})
	}
	return done, p.writeCertificate(pod, *c)
}

// put changes a service. The answer comes at once, and the file is written after the delay.
func (p *Plane) put(r *http.Request, edit func(string, *service) func() error) (done struct{}, err error) {
	received, n := time.Now(), r.PathValue("service")
	p.mu.Lock()
	defer p.mu.Unlock()
	s := p.services[n]
	if s == nil {
		return done, httpserver.Fail(http.StatusNotFound, "there is no service %.70q", n)
	}
	return done, p.enqueue(received.Add(p.Delay), func() (func() error, error) {
		write := edit(n, s)
		return p.moments.timed(received, write), p.save(n, s)
	})
}

// enqueue writes what edit returns when it is due. p.mu is held.
func (p *Plane) enqueue(due time.Time, edit func() (func() error, error)) error {
	if p.failed != nil {
		return p.failed
	}
	if len(p.due) == cap(p.due) {
		return httpserver.Fail(http.StatusTooManyRequests, "%d changes wait", len(p.due))
	}
	write, err := edit()
	if err == nil {
		p.due <- change{due, write}
	}
	return err
}

func (s *service) next() int {
	s.Written++
	return s.Written
}

// save writes the state of a service, for a process that is started again.
func (p *Plane) save(n string, s *service) error {
	text, err := json.Marshal(s)
	if err != nil {
		return err
	}
	return p.replace(n+stateFile, text, func() {})
}

// object is a message of Envoy as JSON.
type object = map[string]any

// writeRoutes writes the routes to a service (RDS). Answers carry the version of the one that they took.
func (p *Plane) writeRoutes(service string, to routes) error {
	return p.writeRoutesTo(service+"-routes.json", service, to)
}

// writeLate writes the second file of routes, if there is one.
func (p *Plane) writeLate(service string, to routes) error {
	if p.Late == 0 {
		return nil
	}
	return p.writeRoutesTo(service+"-late-routes.json", service, to)
}

func (p *Plane) writeRoutesTo(file, service string, to routes) error {
	cluster := "outbound-" + service
	all := []object{}
	for n := range p.Routes {
		all = append(all, object{"match": object{"prefix": fmt.Sprintf("/known/%d", n+1)}, "direct_response": object{"status": http.StatusNotFound}})
	}
	for _, version := range append([]int{to.Version}, to.Behind...) {
		route := object{"cluster": cluster, "timeout": "0s"}
		one := object{"match": object{"prefix": "/"}, "route": route}
		if version == to.Version && len(to.Beside) > 0 {
			delete(route, "cluster")
			route["weighted_clusters"] = object{"clusters": weighted(cluster, version, to.Beside)}
		} else {
			one["response_headers_to_add"] = versionOf(version)
		}
		all = append(all, one)
	}
	return p.publish(file, fmt.Sprint(to.Version), object{
		"@type":         mesh.RouteType,
		"name":          cluster,
		"virtual_hosts": []object{{"name": cluster, "domains": []string{"*"}, "routes": all}},
	})
}

func weighted(cluster string, version int, beside []int) (all []object) {
	for _, v := range append(slices.Clone(beside), version) {
		weight := 0
		if v == version {
			weight = 100
		}
		all = append(all, object{"name": cluster, "weight": weight, "response_headers_to_add": versionOf(v)})
	}
	return all
}

// versionOf is the header of answers by a version of a route.
func versionOf(version int) []object {
	return []object{{"header": object{"key": load.VersionHeader, "value": fmt.Sprintf("%d %%UPSTREAM_REMOTE_ADDRESS%%", version)}}}
}

func (p *Plane) writeEndpoints(service string, version int, endpoints []Endpoint) error {
	all := []object{}
	for _, e := range endpoints {
		all = append(all, object{"endpoint": object{"address": object{"socket_address": object{"address": e.IP, "port_value": e.Port}}}})
	}
	return p.publish(service+"-endpoints.json", fmt.Sprint(version), object{
		"@type":        mesh.EndpointType,
		"cluster_name": "outbound-" + service,
		"endpoints":    []object{{"lb_endpoints": all}},
	})
}

// inboundFile and certificateFile end the names of files.
const (
	inboundFile     = "-inbound.json"
	certificateFile = "-certificate.json"
)

// writePolicy writes the route from the sidecar of a service to its application (RDS), with a filter (RBAC) that denies every
// request or none.
func (p *Plane) writePolicy(service string, version int, denied bool) error {
	route := object{"match": object{"prefix": "/"}, "route": object{"cluster": "app", "timeout": "0s"}}
	if denied {
		all := []object{{"any": true}}
		route["typed_per_filter_config"] = object{"envoy.filters.http.rbac": object{
			"@type": "type.googleapis.com/envoy.extensions.filters.http.rbac.v3.RBACPerRoute",
			"rbac":  object{"rules": object{"action": "DENY", "policies": object{"all": object{"permissions": all, "principals": all}}}},
		}}
	}
	return p.publish(service+inboundFile, fmt.Sprint(version), object{
		"@type":         mesh.RouteType,
		"name":          "inbound",
		"virtual_hosts": []object{{"name": "inbound", "domains": []string{"*"}, "routes": []object{route}}},
	})
}

// writeCertificate writes the certificate of a sidecar (SDS). Each has a path of its own.
func (p *Plane) writeCertificate(pod string, c Certificate) error {
	return p.publish(pod+certificateFile, c.Certificate, object{
		"@type":           "type.googleapis.com/envoy.extensions.transport_sockets.tls.v3.Secret",
		"name":            pod,
		"tls_certificate": object{"certificate_chain": object{"filename": c.Certificate}, "private_key": object{"filename": c.Key}},
	})
}

// publish writes a response of xDS.
func (p *Plane) publish(file, version string, resources ...object) error {
	text, err := json.Marshal(object{"version_info": version, "resources": resources})
	if err != nil {
		return err
	}
	return p.replace(file, text, p.moments.sending)
}

// replace moves a text to a file: Envoy reads a file when it is replaced. before is called before the move: Envoy may be first after it.
func (p *Plane) replace(file string, text []byte, before func()) error {
	path := filepath.Join(p.dir, file)
	if err := os.WriteFile(path+".new", text, 0o600); err != nil {
		return err
	}
	before()
	return os.Rename(path+".new", path)
}

// moments are the instants of the changes that were made.
type moments struct {
	sent atomic.Int64 // when the last file was put in its place, ns since 1970

	mu  sync.Mutex
	all []mesh.ControlMoment
}

// sending is called before a file is put in its place.
func (m *moments) sending() { m.sent.Store(time.Now().UnixNano()) }

// timed adds the instants of a change to the list, when it was made.
func (m *moments) timed(received time.Time, write func() error) func() error {
	return func() error {
		err := write()
		m.mu.Lock()
		defer m.mu.Unlock()
		m.all = append(m.all, mesh.ControlMoment{ReceivedNS: received.UnixNano(), SentNS: m.sent.Load()})
		return err
	}
}

func (m *moments) list(w http.ResponseWriter, _ *http.Request) {
	m.mu.Lock()
	defer m.mu.Unlock()
	httpserver.Answer(w, http.StatusOK, m.all)
}

// background are services that no request calls: one endpoint each, in one file of clusters (CDS), and on streams of ADS.
type background struct {
	changes []int // by service: the number of its last change, 0 for none
	written int
	streams
}

// putBackground sets their number.
func (p *Plane) putBackground(_ *http.Request, n int) (done struct{}, err error) {
	if err := mesh.CheckBackground(n); err != nil {
		return done, httpserver.Fail(http.StatusBadRequest, "%w", err)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.background.changes = make([]int, n)
	return done, p.writeBackground()
}

// changeBackground gives one of them, in turn, another endpoint after the delay.
func (p *Plane) changeBackground(_ *http.Request, number int) (done struct{}, err error) {
	due := time.Now().Add(p.Delay)
	p.mu.Lock()
	defer p.mu.Unlock()
	n := len(p.background.changes)
	if err := mesh.CheckBackgroundChange(number, n); err != nil {
		return done, httpserver.Fail(http.StatusBadRequest, "%w", err)
	}
	return done, p.enqueue(due, func() (func() error, error) {
		return func() error {
			p.mu.Lock()
			defer p.mu.Unlock()
			changed := (number - 1) % n
			p.background.changes[changed] = number
			p.push(changed)
			return p.writeBackground()
		}, nil
	})
}

const backgroundFile = "background.json"

// restoreBackground reads and writes the services of an earlier process in the same directory, or none.
func (p *Plane) restoreBackground() error {
	text, err := os.ReadFile(filepath.Join(p.dir, backgroundFile))
	var earlier struct {
		Version   int               `json:"version_info,string"`
		Resources []json.RawMessage `json:"resources"`
	}
	if err == nil {
		err = json.Unmarshal(text, &earlier)
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("restore %s: %w", backgroundFile, err)
	}
	p.background.written = earlier.Version
	p.background.changes = make([]int, len(earlier.Resources))
	return p.writeBackground()
}

func (p *Plane) writeBackground() error {
	clusters := make([]object, 0, len(p.background.changes))
	for i, change := range p.background.changes {
		name := mesh.BackgroundName(i)
		address := object{"socket_address": object{"address": backgroundAddress(change), "port_value": backgroundPort}}
		clusters = append(clusters, object{
			"@type": mesh.ClusterType, "name": name, "type": "STATIC", "connect_timeout": "10s",
			"load_assignment": object{"cluster_name": name, "endpoints": []object{{"lb_endpoints": []object{{"endpoint": object{"address": address}}}}}},
		})
	}
	p.background.written++
	return p.publish(backgroundFile, fmt.Sprint(p.background.written), clusters...)
}

const backgroundPort = 1

// backgroundAddress is the address of a service after its last change.
func backgroundAddress(change int) string {
	if change == 0 {
		return "127.0.0.1"
	}
	return mesh.BackgroundAddress(change)
}
