package experiment

import "github.com/tare-mesh/tare/internal/experiment/app"

// namespace checks the namespace that is given to a run, and that nothing is asked for that cannot be had in one.
func (v validation) namespace() {
	name := v.e.Platform.Namespace
	switch {
	case name == "":
		return
	case !app.IsLabel(name):
		v.report("platform.namespace", "use lower-case letters, digits and -", "%q is not a DNS label", clip(name))
	case v.e.Application.Chart != nil:
		v.report("platform.namespace", "leave it out: each trial then makes a namespace of its own", "what a chart makes in a namespace that stays is left there by a run that is killed")
	}
	each(v, "factors.mesh", v.e.Factors.Mesh, func(path, mesh string) {
		if d, ok := v.definition(mesh); ok && d.Kubernetes != nil {
			v.report(path, "leave platform.namespace out: a mesh takes rights in the whole cluster", "a mesh marks the namespaces that it is in, and %s is given", clip(name))
		}
	})
}
