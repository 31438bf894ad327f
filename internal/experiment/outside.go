package experiment

// Where the load is sent from.
const (
	LoadInside  = "inside"
	LoadOutside = "outside"
)

var (
	loadFrom = []string{LoadInside, LoadOutside}
	// exposures are the ways into a cluster for a load from outside, the default first.
	exposures = []string{"nodePort", "loadBalancer", "portForward"}
)

// Outside says that the load is sent from the machine tare runs on into a cluster.
func (e *Experiment) Outside() bool { return e.Load.From == LoadOutside }

// outside checks where the load is sent from, and the way it takes.
func (v validation) outside() {
	if v.e.Platform.Kind == "local" {
		for _, field := range []string{"load.from", "platform.expose"} {
			if v.doc.Has(field) {
				v.report(field, "leave it out", "it is of clusters, and the platform is local")
			}
		}
		return
	}
	if from := v.e.Load.From; from != "" {
		v.oneOf("load.from", "place to send the load from", from, loadFrom)
	}
	if way := v.e.Platform.Expose; way != "" {
		v.oneOf("platform.expose", "way into a cluster", way, exposures)
		if !v.e.Outside() {
			v.report("platform.expose", "write load: {from: outside} beside it, or leave it out", "the load is sent from inside the cluster")
		}
	}
}
