package experiment

import (
	"slices"

	"github.com/tare-mesh/tare/internal/experiment/app"
)

const (
	maxStarts   = 100
	startsProbe = "requests over HTTP/1.1 show what has started"
)

// NamesReplicas reports whether answers must name the pod that served them, to show which has started.
func NamesReplicas(e *Experiment) bool { return e.Starts > 0 && e.onCluster() }

type startRules struct{ validation }

func (v startRules) validate() {
	if v.e.Starts == 0 || !v.doc.Sound("starts") {
		return
	}
	switch {
	case !v.local() && !v.e.onCluster():
		v.report("starts", "remove it, or write platform: {kind: local}", "platform %s stops and starts no pods", v.e.Platform.Kind)
	case v.e.onCluster() && factorRules(v).foreign():
		v.report("starts", "use a topology", "answers of a chart, manifests or a namespace do not show which replica served them")
	case slices.ContainsFunc(v.e.protocols(), func(p string) bool { return p != app.HTTP1 }):
		v.report("starts", "write factors: {protocol: [http1]}", startsProbe)
	case v.local() && faultRules(v).replicas("") > 1:
		v.report("starts", "remove factors.replicas", "another replica of the entry would answer meanwhile")
	}
}

func startRows() []fieldRow {
	return []fieldRow{
		{"starts", "Stops and starts of the entry's pod after the load of each trial; on a cluster of all its replicas at once. Requests every 5 ms show when application and sidecar answer, and what is lost.", 0, between(0, maxStarts, "")},
	}
}
