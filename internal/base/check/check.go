// Package check defines the result of one verification step.
package check

// Check is one verified property of a deployment, with its evidence.
type Check struct {
	Name   string `json:"name"` // such as "inbound counter"
	OK     bool   `json:"ok"`
	Detail string `json:"detail"` // the evidence, such as "http.inbound.downstream_rq_total moved by 20, 20 probes"
	Hint   string `json:"hint,omitempty"`
	// Caution limits the use of the figures although the check passed. It becomes a warning of the trial.
	Caution string `json:"caution,omitempty"`
}

// Failed returns the first check that does not hold.
func Failed(checks []Check) (Check, bool) {
	for _, c := range checks {
		if !c.OK {
			return c, true
		}
	}
	return Check{}, false
}
