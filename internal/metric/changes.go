package metric

import "github.com/tare-mesh/tare/internal/base/lists"

// Kinds of changes during the measure phase.
const (
	RouteChanged       = "route-changed"
	WeightShifted      = "weight-shifted"
	RouteAdded         = "route-added"
	EndpointRemoved    = "endpoint-removed"
	EndpointAdded      = "endpoint-added"
	PolicyDenied       = "policy-denied"
	PolicyAllowed      = "policy-allowed"
	CertificateRenewed = "certificate-renewed"
	ProxyRestarted     = "proxy-restarted"
	ControlRestarted   = "control-restarted"
	ControlStopped     = "control-stopped"
	VersionChanged     = "version-changed"
)

// Evidence is what shows that a change took effect.
type Evidence int

// Kinds of evidence.
const (
	Version     Evidence = iota // answers carry the version of the route
	Endpoint                    // answers carry the endpoint that served them
	Denial                      // answers are 403, or are no longer
	Certificate                 // TLS handshakes present the new certificate
	Outage                      // requests fail until the process serves again
	Replacement                 // answers carry an endpoint that did not exist before
)

// ChangeKind describes a kind of change.
type ChangeKind struct {
	Name, Doc string
	Many, One string // in sentences: "route changes", "a route change"
	Shown     Evidence
	First     bool   // it has a first effect
	Last      bool   // it has a last old answer
	Time      string // metric that shows its time in a sentence, empty for none
	Reached   string // the verb of that sentence
	Fails     bool   // all requests may fail meanwhile, so that checks of the rate are suspended
	After     string // kind that is made before it, and undone by it
	Plane     Plane  // whose process ends and starts again, empty for none
}

// changeKinds is the table of all kinds, in the order of reports.
var changeKinds = []ChangeKind{
	{Name: RouteChanged, Doc: "the route to the entry gets a new version; without a mesh, the entry itself does",
		Many: "route changes", One: "a route change", Shown: Version, First: true, Last: true, Time: ChangeLastOld, Reached: "reach every connection"},
	{Name: WeightShifted, Doc: "all of the weight moves from a version of the route to the next",
		Many: "weight shifts", One: "a weight shift", Shown: Version, First: true, Last: true, Time: ChangeLastOld, Reached: "reach every connection"},
	{Name: EndpointRemoved, Doc: "a replica of the entry leaves the list of endpoints",
		Many: "endpoint removals", One: "an endpoint removal", Shown: Endpoint, Last: true, Time: ChangeLastOld, Reached: "reach every connection"},
	{Name: EndpointAdded, Doc: "it comes back", After: EndpointRemoved,
		Many: "endpoint additions", One: "an endpoint addition", Shown: Endpoint, First: true, Time: ChangeFirstNew, Reached: "have a first effect"},
	{Name: RouteAdded, Doc: "a route is added before the others, and takes their requests",
		Many: "route additions", One: "a route addition", Shown: Version, First: true, Last: true, Time: ChangeLastOld, Reached: "reach every connection"},
	{Name: PolicyDenied, Doc: "a policy of the entry's sidecars denies every request, which get 403", Fails: true,
		Many: "denials", One: "a denial", Shown: Denial, First: true, Last: true, Time: ChangeLastOld, Reached: "reach every connection"},
	{Name: PolicyAllowed, Doc: "the policy allows them again", After: PolicyDenied, Fails: true,
		Many: "permissions", One: "a permission", Shown: Denial, First: true, Last: true, Time: ChangeLastOld, Reached: "reach every connection"},
	{Name: CertificateRenewed, Doc: "the sidecar of a replica of the entry gets a new certificate; with Consul, all sidecars do, by a new root",
		Many: "certificate renewals", One: "a certificate renewal", Shown: Certificate, First: true, Last: true, Time: ChangeLastOld, Reached: "reach every new connection"},
	{Name: ProxyRestarted, Doc: "the sidecar of a replica of the entry ends (SIGTERM) and is started again", Fails: true, Plane: Data,
		Many: "proxy restarts", One: "a proxy restart", Shown: Outage, First: true, Last: true, Time: ChangeLastOld, Reached: "are over"},
	{Name: ControlRestarted, Doc: "a process of the control plane ends and is started again", Fails: true, Plane: Control,
		Many: "control plane restarts", One: "a control plane restart", Shown: Outage, First: true, Last: true},
	{Name: ControlStopped, Doc: "it ends, and is started again after half of the time between changes", Fails: true, Plane: Control,
		Many: "control plane stops", One: "a control plane stop", Shown: Outage, First: true, Last: true},
	{Name: VersionChanged, Doc: "a control plane of another revision (with changes.to: of another version) is installed, and the application moves to it; without a mesh, the application is rolled out", Fails: true,
		Many: "version changes", One: "a version change", Shown: Replacement, First: true, Last: true, Time: ChangeLastOld, Reached: "replace every proxy"},
}

// ByConnection reports whether answers show for each connection when it gets the new configuration.
func (k ChangeKind) ByConnection() bool { return k.Last && k.Shown <= Denial }

// Replaces reports whether tasks of a plane end or start with a change. On a cluster the application ends with its sidecar.
func (k ChangeKind) Replaces(p Plane) bool {
	return k.Plane == p && p != "" || k.Plane == Data && p == App || k.Shown == Replacement && (p == App || p == Data || p == Control)
}

// ChangeKinds lists the kinds of changes. The slice is shared, so do not change it.
func ChangeKinds() []ChangeKind { return changeKinds }

// ChangeKindOf finds a kind by name.
func ChangeKindOf(name string) (ChangeKind, bool) {
	return lists.First(changeKinds, func(k ChangeKind) bool { return k.Name == name })
}

// ChangeNames lists the names of the kinds with a property, nil for all.
func ChangeNames(has func(ChangeKind) bool) (names []string) {
	for _, k := range changeKinds {
		if has == nil || has(k) {
			names = append(names, k.Name)
		}
	}
	return names
}

// UpperBoundOf returns the metric that bounds another from above, where observations only bound it: the times of changes.
func UpperBoundOf(name string) (string, bool) {
	base := Base(name)
	most, bounded := map[string]string{ChangeFirstNew: ChangeFirstNewMost, ChangeLastOld: ChangeLastOldMost}[base]
	return most + name[len(base):], bounded
}
