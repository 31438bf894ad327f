package mesh

import "errors"

// Kinds of changes.
const (
	RouteChanged    = "route-changed"
	WeightShifted   = "weight-shifted"
	EndpointRemoved = "endpoint-removed"
	EndpointAdded   = "endpoint-added"
)

// ChangeKinds lists the kinds of changes.
func ChangeKinds() []string {
	return []string{RouteChanged, WeightShifted, EndpointRemoved, EndpointAdded}
}

// Versioned reports whether a kind of change gives the route a new version.
func Versioned(kind string) bool { return kind == RouteChanged || kind == WeightShifted }

// ChangeContext is the data of the templates of a change.
type ChangeContext struct {
	Service   string     // whose route or endpoints change
	Version   int        // of the new route, from 1
	Endpoints []Endpoint // all of the service after the change
	Control   map[string]ControlContext
	Secrets
}

// CanChange returns an error with the reason if nothing on this machine makes a kind of change. Without a mesh, the
// application itself changes its version.
func (d Definition) CanChange(kind string) error {
	switch {
	case d.Local == nil && kind == RouteChanged:
		return nil
	case d.Local == nil:
		return errors.New("it has no proxy with a list of endpoints")
	case d.Local.Changes[kind].URL == "":
		return errors.New("its definition has no request for it in local.changes")
	}
	return nil
}
