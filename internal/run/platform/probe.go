package platform

import (
	"fmt"
	"maps"
	"math"
	"net/url"
	"slices"
	"strings"

	"github.com/tare-mesh/tare/internal/experiment/app"
	"github.com/tare-mesh/tare/internal/load"
)

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
