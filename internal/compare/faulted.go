package compare

import (
	"fmt"
	"strings"

	"github.com/tare-mesh/tare/internal/metric"
	"github.com/tare-mesh/tare/internal/result"
)

// faultVerbs are the kinds of faults as predicates of their targets. "was" becomes "were" after a plural.
var faultVerbs = map[string]string{
	"kill": "was killed", "terminate": "was stopped", "pause": "was paused", "restart": "was restarted", "scale": "was removed",
	"latency": "answered later", "errors": "answered with errors", "rate-limit": "refused requests beyond a rate",
	"cpu-burn": "used more CPU", "memory": "held more memory", "partition": "was cut off the network",
	"packet-loss": "lost packets", "packet-delay": "got packets late", "bandwidth": "had a limited bandwidth",
}

// faultsOf describes the faults of a run by the trial with most targets: "9 of 10 replicas of server were removed".
func faultsOf(records []result.Record) (clauses []string) {
	most := 0
	for i := range records {
		all, n := faultClauses(&records[i])
		if n > most {
			clauses, most = all, n
		}
	}
	return clauses
}

// faultClauses are the faults of a trial, one clause for each kind and service, and the number of their targets.
func faultClauses(r *result.Record) (clauses []string, targets int) {
	type hit struct{ kind, of string }
	var order []hit
	hits := map[hit]map[string]bool{}
	for _, f := range r.Faults {
		for _, target := range f.Targets {
			h := hit{f.Kind, hitBy(r.Tasks, target)}
			if hits[h] == nil {
				order, hits[h] = append(order, h), map[string]bool{}
			}
			hits[h][target] = true
		}
	}
	pods := map[string]map[string]bool{} // by service
	for _, t := range r.Tasks {
		if pods[t.Service] == nil {
			pods[t.Service] = map[string]bool{}
		}
		pods[t.Service][t.Pod] = true
	}
	for _, h := range order {
		n, verb := len(hits[h]), faultVerbs[h.kind]
		targets += n
		service := h.of[strings.LastIndexByte(h.of, ' ')+1:]
		subject := h.of
		if all := len(pods[service]); all > 1 {
			subject = fmt.Sprintf("%d of %d replicas of %s", n, all, h.of)
		}
		if n > 1 {
			verb = strings.Replace(verb, "was ", "were ", 1)
		}
		if verb != "" {
			clauses = append(clauses, subject+" "+verb)
		}
	}
	return clauses, targets
}

// hitBy names what a fault's target belongs to: a service, or a plane other than the application's. target is a pod or
// the ID of a task.
func hitBy(tasks []result.TaskUsage, target string) string {
	for _, t := range tasks {
		switch {
		case t.ID != target && t.Pod != target:
		case t.ID == target && t.Plane == metric.Data:
			return "the sidecar of " + t.Service
		case t.ID == target && t.Plane == metric.Control:
			return "the control plane"
		case t.Service != "":
			return t.Service
		}
	}
	return target
}
