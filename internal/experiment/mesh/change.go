package mesh

import (
	"errors"
	"slices"

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
