package metric

// Plane says on whose behalf a task burns CPU and memory. Every task has exactly one.
type Plane string

const (
	App          Plane = "app"          // the services under test
	Data         Plane = "data"         // sidecars, node proxies, waypoints, gateways
	Control      Plane = "control"      // the mesh's control plane
	Load         Plane = "load"         // the load generator itself, without its proxy
	Platform     Plane = "platform"     // what the platform runs for everyone: kube-system, the kernel's remainder
	Harness      Plane = "harness"      // tare itself
	Unattributed Plane = "unattributed" // matched no attribution rule; reported, never dropped
)

// Planes lists every plane in the order in which reports print them.
func Planes() []Plane {
	return []Plane{App, Data, Control, Platform, Unattributed, Load, Harness}
}

// Part is what stands after the slash of a metric's name: a plane, or a sum of planes.
type Part struct {
	Name   string
	Planes []Plane // what is added up
	Doc    string
}

// Parts lists the planes and their sums. The sums are defined once, here.
func Parts() []Part {
	return []Part{
		{"app", []Plane{App}, "the services under test"},
		{"data", []Plane{Data}, "the data plane: sidecars, node proxies, waypoints"},
		{"control", []Plane{Control}, "the mesh's control plane"},
		{"platform", []Plane{Platform}, "what the platform burns for everyone"},
		{"unattributed", []Plane{Unattributed}, "tasks that matched no attribution rule"},
		{"load", []Plane{Load}, "the load generator"},
		{"harness", []Plane{Harness}, "tare itself"},
		{"mesh", []Plane{Data, Control}, "data plane and control plane"},
		{"business", []Plane{App, Data, Control, Load}, "application, mesh and load generator, without the platform"},
		{"total", []Plane{App, Data, Control, Platform, Unattributed}, "what the owner of the application pays"},
		{"cluster", []Plane{App, Data, Control, Platform, Unattributed, Load}, "everything but the harness"},
	}
}
