// Package check defines the result of one verification step.
package check

import "github.com/tare-mesh/tare/internal/base/lists"

// Check is one verified property of a deployment, with its evidence.
type Check struct {
	Name    string `json:"name"`              // verification step
	OK      bool   `json:"ok"`                // whether it holds
	Detail  string `json:"detail"`            // finding
	Hint    string `json:"hint,omitempty"`    // remedy
	Caution string `json:"caution,omitempty"` // limitation of a passed check
}

// Failed returns the first check that does not hold.
func Failed(checks []Check) (Check, bool) {
	return lists.First(checks, func(c Check) bool { return !c.OK })
}
