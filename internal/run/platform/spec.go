package platform

import (
	"bytes"
	"cmp"
	"compress/gzip"
	"errors"
	"fmt"
	"maps"
	"math"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/tare-mesh/tare/internal/base/hint"
	"github.com/tare-mesh/tare/internal/base/rpc"
	"github.com/tare-mesh/tare/internal/experiment/app"
	"github.com/tare-mesh/tare/internal/experiment/mesh"
	"github.com/tare-mesh/tare/internal/load"
)

// Replicas is the number of replicas of a service, by default the treatment's.
func (s Spec) Replicas(of app.Service) int {
	return max(1, cmp.Or(of.Replicas, s.Treatment.Levels.Replicas))
}

// Attribute returns t with its plane, role and component.
func (s Spec) Attribute(t mesh.Task) mesh.Task {
	return s.Mesh.Attribute(t, s.Topology.BesideNames()...)
}

// Check refuses a specification that no platform can run: without services, or with a service of the load generator's name.
func (s Spec) Check() error {
	if len(s.Topology.Services) == 0 {
		return errors.New("the topology has no services")
	}
	for _, of := range s.Topology.Services {
		if of.Name == LoadService {
			return hint.New("rename the service", "the service name %q is reserved for the load generator", LoadService)
		}
	}
	return nil
}

// Instance is the configuration of the program that plays a service. at returns the URLs of
// another service for it.
func (s Spec) Instance(of app.Service, at func(service string) []string) app.Instance {
	i := app.Instance{Name: of.Name, Protocol: s.Protocol(of), Behavior: of.Behavior}
	if i.ResponseSize.IsZero() {
		i.ResponseSize = app.FixedSize(int64(s.Treatment.Levels.ResponseSize))
	}
	for _, c := range of.Calls {
		up := app.Upstream{Service: c.Service, CallOptions: c.CallOptions}
		if c.Service != "" {
			callee, _ := s.Topology.Service(c.Service)
			up.URLs, up.Protocol = at(c.Service), cmp.Or(c.Protocol, s.Protocol(callee))
		}
		i.Calls = append(i.Calls, up)
	}
	return i
}

// Targets are the URLs that the load is sent to: the entry's roots with the treatment's routes, or
// with the method of gRPC. A gRPC program of others has methods as routes, by default its health check.
func (s Spec) Targets(roots []string) []string {
	grpc := s.Protocol(s.Entry()) == app.GRPC
	if grpc && !s.Entry().IsOwn() && !s.Topology.Foreign() {
		return each(roots, []string{app.GRPCMethod})
	}
	if grpc && s.Treatment.Levels.Route == "" {
		return each(roots, []string{rpc.HealthCheck})
	}
	if routes := s.Treatment.Levels.Route; routes != "" {
		return each(roots, strings.Split(routes, ","))
	}
	return slices.Clone(roots)
}

// LoadService is the name of the load generator's pod and of its service.
const LoadService = "load"

// Entry is the service that receives the load.
func (s Spec) Entry() app.Service {
	entry, _ := s.Topology.Service(s.Topology.EntryName())
	return entry
}

// Protocol is the protocol of a service, by default the treatment's.
func (s Spec) Protocol(of app.Service) string {
	return s.Topology.ProtocolOf(of, s.Treatment.Levels.Protocol)
}

func each(roots, paths []string) (all []string) {
	for _, root := range roots {
		for _, path := range paths {
			all = append(all, strings.TrimSuffix(root, "/")+path)
		}
	}
	return all
}

// Probe has the requests of [Deployment.Verify], and the answers that it expects.
type Probe struct {
	// Load has the requests of the trial's load and the checks of their answers. Without targets it is the load of
	// a file without load.requests: the entry's targets, with the sizes of the treatment.
	Load load.Profile
	// ErrorRatio is the share of answers that may fail, 0 to 1.
	ErrorRatio float64
}

// Completed is p with the requests to the targets, if it has none of its own.
func (s Spec) Completed(p Probe, targets []string) Probe {
	if len(p.Load.Targets) == 0 {
		p.Load.Targets, p.Load.Protocol, p.Load.RequestSize = targets, s.Protocol(s.Entry()), int64(s.Treatment.Levels.RequestSize)
		p.Load.ExpectSize = s.Topology.AnswerSize(s.Entry(), int64(s.Treatment.Levels.ResponseSize))
	}
	if s.Protocol(s.Entry()) == app.TCP {
		p.Load.ExpectSize = -1 // an echo has the length of the request
	}
	return p
}

// Answers are the answers to the probes.
type Answers struct {
	Good   int
	Failed map[string]int // the others, by status and, without one, by error
}

// Accept reports whether the answers are those that the file of the experiment asks for. A service fails some requests
// on purpose, or the file allows a share of errors. how describes the good ones.
func (s Spec) Accept(p Probe, a Answers) (ok bool, detail string) {
	planned := s.Topology.Failures(s.Entry().Name)
	var excused, others []string
	failed, sent := 0, a.Good
	for _, name := range slices.Sorted(maps.Keys(a.Failed)) {
		n := a.Failed[name]
		sent += n
		if text := fmt.Sprintf("%s (%d)", name, n); len(planned) > 0 && (slices.Contains(planned, name) || strings.HasPrefix(name, "grpc-")) {
			excused = append(excused, text)
		} else {
			others = append(others, text)
			failed += n
		}
	}
	detail = fmt.Sprintf("%d of %d probes were answered%s", a.Good, sent, p.how())
	if len(excused) > 0 {
		detail += "; the application fails others on purpose: " + strings.Join(excused, ", ")
	}
	if len(others) > 0 {
		detail += "; the others: " + strings.Join(others, ", ")
	}
	return sent > 0 && failed <= p.tolerated(sent), detail
}

// MayFail reports whether some of a number of requests may fail, so that callers and proxies may repeat them.
func (s Spec) MayFail(p Probe, requests int) bool {
	return p.tolerated(requests) > 0 || len(s.Topology.Failures(s.Entry().Name)) > 0
}

// tolerated is the number of answers that may fail: the mean of a Poisson distribution and three standard deviations.
func (p Probe) tolerated(sent int) int {
	mean := p.ErrorRatio * float64(sent)
	return int(mean + 3*math.Sqrt(mean))
}

// how describes a good answer.
func (p Probe) how() string {
	how := ""
	switch {
	case p.Load.Protocol == app.TCP || p.Load.Protocol == app.WebSocket:
	case len(p.Load.ExpectStatus) > 0:
		how = " with status " + strings.Join(p.Load.ExpectStatus, ", ")
	case p.Load.Protocol == app.GRPC:
		how = " with status grpc-0"
	default:
		how = " with status 2xx"
	}
	if p.Load.ExpectSize >= 0 && how != "" {
		how += fmt.Sprintf(" and %d bytes", p.Load.ExpectSize)
	}
	return how
}

// OwnHost is the header Host of tare's own requests to a service, such as for its readiness.
func (s Spec) OwnHost(of app.Service) string {
	if of.Name == s.Entry().Name && s.LoadHost != "" {
		return s.LoadHost
	}
	return s.Host(of)
}

// Host is the header Host of requests to a service on this machine, or :authority. Addresses and ports differ from
// deployment to deployment, and a sidecar has its own. Without a URL the service is localhost.
func (s Spec) Host(of app.Service) string {
	if u, err := url.Parse(of.URL); err == nil && u.Host != "" {
		return u.Host
	}
	return "localhost"
}

// Provenance is the directory of a trial's rendered configurations, command lines and logs. The empty one keeps nothing.
type Provenance string

// WriteLarge writes one file. With more than max bytes it is compressed, and its name ends in .gz.
func (p Provenance) WriteLarge(name string, content []byte, max int) error {
	if len(content) <= max {
		return p.Write(name, content)
	}
	var small bytes.Buffer
	w := gzip.NewWriter(&small)
	if _, err := w.Write(content); err != nil {
		return err
	}
	if err := w.Close(); err != nil {
		return err
	}
	return p.Write(name+".gz", small.Bytes())
}

// Write writes one file.
func (p Provenance) Write(name string, content []byte) error {
	if !p.Enabled() {
		return nil
	}
	return os.WriteFile(p.Path(name), content, 0o600)
}

// Command adds a command line to commands.sh, below the place where it runs.
func (p Provenance) Command(where, command string) error {
	return hint.Prefix(p.Append("commands.sh", "# %s\n%s\n\n", where, command), "record a command line")
}

// Append adds text to a file.
func (p Provenance) Append(name, format string, args ...any) error {
	if !p.Enabled() {
		return nil
	}
	f, err := os.OpenFile(p.Path(name), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(f, format, args...)
	return errors.Join(err, f.Close())
}

// Enabled reports whether there is a directory.
func (p Provenance) Enabled() bool { return p != "" }

// Path returns the path of a file. The parts of name are separated by slashes.
func (p Provenance) Path(name string) string {
	return filepath.Join(string(p), filepath.FromSlash(name))
}
