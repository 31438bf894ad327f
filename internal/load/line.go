package load

import (
	"github.com/tare-mesh/tare/internal/base/clock"
)

// Progress is printed as one JSON line on stdout each second while a load runs.
type Progress struct {
	Second    int     `json:"second"` // from Start
	Phase     string  `json:"phase"`  // warm-up | measure | tail
	Intended  int64   `json:"intended"`
	Completed int64   `json:"completed"` // in this second
	Errors    int64   `json:"errors"`    // in this second, every class but 2xx
	P50MS     float64 `json:"p50_ms"`
	P99MS     float64 `json:"p99_ms"`
}

// Line is one line of the engine's stdout: a progress line or, last, the report.
type Line struct {
	Progress *Progress `json:"progress,omitempty"`
	Report   *Report   `json:"report,omitempty"`
	// Clock answers a [Question] that came before the profile.
	Clock *clock.Stamps `json:"clock,omitempty"`
}

// Question may come on the engine's stdin, any number of times, before the profile.
// Each is answered by a line with the clock.
type Question struct {
	Clock bool `json:"clock"`
}
