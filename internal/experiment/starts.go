package experiment

import (
	"slices"

	"github.com/tare-mesh/tare/internal/experiment/app"
)

const (
	maxStarts   = 100
	startsProbe = "requests over HTTP/1.1 show what has started"
)

// startRules checks the starts of a pod.
type startRules struct{ validation }

func (v startRules) validate() {
	if v.e.Starts == 0 || !v.doc.Sound("starts") {
		return
	}
	switch {
	case !v.local():
		v.report("starts", "remove it, or write platform: {kind: local}", "pods are stopped and started on platform local only")
	case slices.ContainsFunc(v.e.protocols(), func(p string) bool { return p != app.HTTP1 }):
		v.report("starts", "write factors: {protocol: [http1]}", startsProbe)
	case faultRules(v).replicas("") > 1:
		v.report("starts", "remove factors.replicas", "another replica of the entry would answer meanwhile")
	}
}

func startRows() []fieldRow {
	return []fieldRow{
		{"starts", "Stops and starts of the entry's pod after the load of each trial. Requests every 5 ms show when application and sidecar answer, and what is lost.", 0, between(0, maxStarts, "")},
	}
}
