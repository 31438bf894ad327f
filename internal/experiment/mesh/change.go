package mesh

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"time"

	"github.com/tare-mesh/tare/internal/base/certificate"
	"github.com/tare-mesh/tare/internal/metric"
)

// Change is the request that makes a kind of change.
type Change struct {
	Request `yaml:",inline"`
	// Without are kinds that an experiment with it cannot have.
	Without []string `yaml:"without,omitempty" json:"without,omitempty"`
	// EverySeconds is the least time between changes that it needs, in seconds. 0 means none.
	EverySeconds int `yaml:"everySeconds,omitempty" json:"everySeconds,omitempty" range:"0,3600"`
}

// ChangeContext is the data of the templates of a change.
type ChangeContext struct {
	Service   string     // whose route or endpoints change
	Version   int        // of the new route, from 1
	Before    int        // version of the route before, from 0
	Endpoints []Endpoint // all of the service after the change
	Control   map[string]ControlContext
	// Pod is the replica that is removed, added, or gets a new certificate.
	Pod string
	// CertPath and KeyPath are the paths of the new certificate and its key (PEM).
	CertPath, KeyPath string
	Secrets
}

// AuthorityKey makes a private key for a new authority, PEM (SEC 1).
func (ChangeContext) AuthorityKey() (string, error) {
	pair, err := certificate.New(certificate.Authority("tare change"), nil)
	if err != nil {
		return "", err
	}
	key, err := pair.KeyPEM()
	return string(key), err
}

// ControlMoment has the instants of one change of [Local.Changes] as a control plane counts them, in ns since 1970.
type ControlMoment struct {
	ReceivedNS int64 `json:"receivedNs"` // it received the change
	SentNS     int64 `json:"sentNs"`     // it had sent the new configuration to all proxies
}

// reloads are the kinds of changes that a proxy makes by reading its configuration again.
var reloads = []string{metric.RouteChanged, metric.EndpointRemoved, metric.EndpointAdded, metric.CertificateRenewed}

// NothingRestarts reports whether a kind of change ends processes of a mesh, and there is no mesh. On a cluster a pod has a restart
// without a proxy too.
func (d Definition) NothingRestarts(platform, kind string) bool {
	described, _ := metric.ChangeKindOf(kind)
	if platform == OnKubernetes {
		return d.Kubernetes == nil && described.Plane == metric.Control
	}
	return d.Local == nil && described.Plane != ""
}

// CanChange returns an error with the reason if nothing on a platform makes a kind of change. Without a mesh, the
// application itself changes its version, and nothing restarts: requests then fail without a change, if any.
func (d Definition) CanChange(platform, kind string) error {
	switch {
	case d.NothingRestarts(platform, kind):
		return nil
	case platform == OnKubernetes:
		return d.canChangeInCluster(kind)
	}
	described, _ := metric.ChangeKindOf(kind)
	switch {
	case kind == metric.VersionChanged:
		return errors.New("only a cluster has revisions")
	case d.Local == nil && kind == metric.RouteChanged:
		return nil
	case d.Local == nil:
		return errors.New("it has no proxy")
	case described.Plane == metric.Data:
		return nil
	case described.Plane == metric.Control && len(d.Local.Controls()) == 0:
		return errors.New("it has no control plane")
	case described.Plane == metric.Control:
		return nil
	case kind == metric.CertificateRenewed && !d.Provides.MTLS:
		return errors.New("it has no mutual TLS")
	case d.Local.Changes[kind].URL != "", d.Local.Sidecar.Reload != nil && slices.Contains(reloads, kind):
		return nil
	}
	return errors.New("its definition has no request for it in local.changes")
}

// canChangeInCluster returns why neither Kubernetes nor an object of the mesh makes a kind of change.
func (d Definition) canChangeInCluster(kind string) error {
	switch k := d.Kubernetes; {
	case kind == metric.EndpointRemoved, kind == metric.EndpointAdded, kind == metric.ProxyRestarted:
		return nil
	case k == nil && (kind == metric.RouteChanged || kind == metric.VersionChanged):
		return nil
	case k == nil:
		return errors.New("it has no proxy")
	case (kind == metric.ControlRestarted || kind == metric.ControlStopped) && len(k.Workloads) == 0:
		return errors.New("it has no control plane of its own")
	case kind == metric.ControlStopped && slices.ContainsFunc(k.Workloads, func(w Workload) bool { return w.Kind == "DaemonSet" }):
		return errors.New("a DaemonSet of its control plane cannot be scaled to none")
	case kind == metric.VersionChanged && (k.Revisions == nil || len(k.Revisions.Proof.Labels)+len(k.Revisions.Proof.Annotations) == 0):
		return errors.New("its definition has no revisions with marks of their pods")
	case kind == metric.VersionChanged && k.Revision != "":
		return errors.New("it is a revision beside others: write order: by-mesh")
	case kind == metric.VersionChanged, kind == metric.ControlRestarted, kind == metric.ControlStopped, k.Changes[kind] != "":
		return nil
	}
	return errors.New("its definition has no object for it in kubernetes.changes")
}

// Change renders the objects of a kind of change, as a stream of YAML.
func (k Kubernetes) Change(kind string, ctx ChangeContext) ([]byte, error) {
	var r rendering
	text := r.text("changes."+kind, k.Changes[kind], ctx)
	return []byte(text), r.err("the objects of " + kind)
}

// Background are requests about services that no request of the load calls, named background-1 and so on. They are
// templates over [BackgroundContext].
type Background struct {
	// Services adds them, before the first sidecar starts.
	Services Request `yaml:"services" json:"services"`
	// Change gives one of them another endpoint.
	Change    Request `yaml:"change" json:"change"`
	Simulated `yaml:",inline"`
	// Gauge of a sidecar is at least the number of services in its configuration. Empty means that the control plane does not
	// configure the sidecars, so that simulated proxies alone know the services.
	Gauge string `yaml:"gauge,omitempty" json:"gauge,omitempty"`
}

// Simulated is where simulated proxies connect, and the nodes that they are. Its texts are templates.
type Simulated struct {
	// Proxies is the address of delta ADS, host:port, to which simulated proxies connect. Empty means that there is none.
	Proxies string `yaml:"proxies,omitempty" json:"proxies,omitempty" as:"template"`
	// Node is the id of a simulated proxy's node, and Metadata its metadata as JSON. {number} is from 1, and {ip} an address of the
	// range 198.19.0.0/16. Absent means proxy-{number}, without metadata.
	Node     string `yaml:"node,omitempty" json:"node,omitempty" as:"template"`
	Metadata string `yaml:"metadata,omitempty" json:"metadata,omitempty" as:"template"`
}

// Render renders the texts over a [BackgroundContext], or on a cluster over an [EnrolContext].
func (s Simulated) Render(data any) (Simulated, error) {
	for name, text := range map[string]*string{"proxies": &s.Proxies, "node": &s.Node, "metadata": &s.Metadata} {
		b, err := execute(name, *text, data)
		if err != nil {
			return Simulated{}, fmt.Errorf("render background.%s: %w", name, err)
		}
		*text = string(b)
	}
	return s, nil
}

// CanSimulate returns an error with the missing part of the definition if simulated proxies cannot connect to the control plane on
// a platform. Without a mesh, none are started.
func (d Definition) CanSimulate(platform string) error {
	missing := ""
	switch {
	case platform == OnKubernetes && d.Kubernetes != nil && (d.Kubernetes.Background == nil || d.Kubernetes.Background.Proxies == ""):
		missing = "kubernetes.background.proxies"
	case platform == OnLocal && d.Local != nil && (d.Local.Background == nil || d.Local.Background.Proxies == ""):
		missing = "local.background.proxies"
	default:
		return nil
	}
	return fmt.Errorf("%w: its definition has no address in %s", errors.ErrUnsupported, missing)
}

// BackgroundContext is the data of the templates of [Background].
type BackgroundContext struct {
	Services int // in all
	Number   int // of a change, from 1: the services change in turn
	Control  map[string]ControlContext
	Secrets
}

// MaxBackgroundServices is the highest number of services that no request calls.
const MaxBackgroundServices = 10_000

// BackgroundName is the name of a background service, by its index.
func BackgroundName(i int) string { return fmt.Sprintf("background-%d", i+1) }

// MaxBackgroundProxies is the highest number of simulated proxies.
const MaxBackgroundProxies = 5000

// simulatedTime is the time per simulated proxy until all have a configuration. istiod with its default limit of new streams took 40 s
// for 500, 53 s for 1,000 and 92 s for 2,000 (docs/lab/churn.md).
const simulatedTime = 80 * time.Millisecond

// SimulatedTime is about the time until n simulated proxies have a configuration.
func SimulatedTime(n int) time.Duration { return time.Duration(n) * simulatedTime }

// SimulatedLimit is the maximum time until n simulated proxies have a configuration. Without any it is 0.
func SimulatedLimit(n int) time.Duration {
	if n == 0 {
		return 0
	}
	return time.Minute + 4*SimulatedTime(n)
}

// MaxBackgroundChange is the highest number of a change in a trial.
const MaxBackgroundChange = 1<<16 - 1

// CheckBackground refuses a number of services that no request calls.
func CheckBackground(services int) error {
	if services < 0 || services > MaxBackgroundServices {
		return fmt.Errorf("%d is not between 0 and %d services", services, MaxBackgroundServices)
	}
	return nil
}

// CheckBackgroundChange refuses a change of these services with a number that does not exist.
func CheckBackgroundChange(number, services int) error {
	if number < 1 || number > MaxBackgroundChange || services == 0 {
		return fmt.Errorf("change %d of %d services", number, services)
	}
	return nil
}

// BackgroundAddress is the address that a background service has after a change, by the number of the change. The addresses are
// of a range for benchmarks (RFC 2544), in which nothing answers. They show which change a proxy received.
func BackgroundAddress(number int) string {
	return fmt.Sprintf("198.18.%d.%d", number>>8&255, number&255)
}

// BackgroundChange returns the number of the change that an address is of.
func BackgroundChange(address string) (number int, ok bool) {
	ip, err := netip.ParseAddr(address)
	if err != nil || !ip.Is4() {
		return 0, false
	}
	b := ip.As4()
	return int(binary.BigEndian.Uint16(b[2:])), b[0] == 198 && b[1] == 18
}
