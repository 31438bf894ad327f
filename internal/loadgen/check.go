package loadgen

import (
	"errors"
	"fmt"
	"math"
	"net/http"
	"strings"
	"time"
)

// Bounds of what a profile may ask; beyond them it is a mistake, not a wish.
const (
	maxRate        = 10_000_000 // 1/s
	maxConnections = 1_000_000
	maxRequestSize = 1 << 30 // bytes
	maxWorkers     = 1024
	maxDuration    = 30 * 24 * time.Hour
)

// Defaults of what a profile leaves open.
const (
	DefaultConnections = 64
	DefaultTimeout     = 10 * time.Second
	defaultSpin        = 60 * time.Microsecond
)

// withDefaults fills in what p leaves open.
func (p Profile) withDefaults() Profile {
	if p.Method == "" {
		p.Method = http.MethodGet
		if p.RequestSize > 0 {
			p.Method = http.MethodPost
		}
	}
	if p.Arrivals == "" {
		p.Arrivals = Poisson
	}
	if p.Connections == 0 {
		p.Connections = DefaultConnections
	}
	if p.Timeout == 0 {
		p.Timeout = DefaultTimeout
	}
	if p.Workers == 0 {
		p.Workers = 1
	}
	// A worker without a connection to every target cannot take its share.
	if most := max(1, p.Connections/max(1, len(p.Targets))); p.Workers > most {
		p.Workers = most
	}
	if p.Protocol == "" {
		p.Protocol = "http1"
	}
	return p
}

// protocols the engine speaks, under every name an experiment may give them.
var protocols = map[string]bool{"http1": true, "http/1.1": true, "http": true}

// Validate names every mistake in p at once. Defaults need not be filled in.
// It wraps [errors.ErrUnsupported] where p asks for what the engine cannot do.
func (p Profile) Validate() error {
	p = p.withDefaults()
	var errs []error
	refuse := func(when bool, format string, args ...any) {
		if when {
			errs = append(errs, fmt.Errorf(format, args...))
		}
	}
	refuse(len(p.Targets) == 0, "no target")
	for _, t := range p.Targets {
		if _, err := parseTarget(t); err != nil {
			errs = append(errs, err)
		}
	}
	refuse(!validName([]byte(p.Method)) || strings.Contains(p.Method, " "), "method %q is not a token", p.Method)
	refuse(math.IsNaN(p.Rate) || p.Rate < 0 || p.Rate > maxRate, "rate %v is not between 0 and %d requests/s", p.Rate, maxRate)
	refuse(p.Arrivals != Constant && p.Arrivals != Poisson, "arrivals %q are neither %q nor %q", p.Arrivals, Constant, Poisson)
	refuse(p.Connections < 1 || p.Connections > maxConnections, "%d connections are not between 1 and %d", p.Connections, maxConnections)
	refuse(p.Connections >= 1 && p.Connections < len(p.Targets), "%d connections are fewer than the %d targets", p.Connections, len(p.Targets))
	refuse(p.Workers < 1 || p.Workers > maxWorkers, "%d workers are not between 1 and %d", p.Workers, maxWorkers)
	refuse(p.RequestSize < 0 || p.RequestSize > maxRequestSize, "request size %d is not between 0 and %d bytes", p.RequestSize, maxRequestSize)
	refuse(p.Measure <= 0, "the measure window is %v long", p.Measure)
	for _, d := range []struct {
		name string
		d    time.Duration
	}{{"timeout", p.Timeout}, {"warm-up", p.Warmup}, {"measure window", p.Measure}, {"tail", p.Tail}, {"drain", p.Drain}} {
		refuse(d.d < 0 || d.d > maxDuration, "%s %v is not between 0 and %v", d.name, d.d, maxDuration)
	}
	for _, cpu := range p.CPUs {
		refuse(cpu < 0 || cpu >= 1024, "cpu %d is not between 0 and 1023", cpu)
	}
	refuse(p.Engine != "" && p.Engine != enginePortable, "engine %q is neither empty nor %q", p.Engine, enginePortable)
	refuse(p.TLS != nil && (p.TLS.CertFile == "") != (p.TLS.KeyFile == ""), "a client certificate needs both a certificate and a key file")
	if !protocols[p.Protocol] {
		errs = append(errs, fmt.Errorf("protocol %q: %w", p.Protocol, errors.ErrUnsupported))
	}
	return errors.Join(errs...)
}
