package load

import (
	"fmt"
	"strings"
)

// Result is the outcome of the requests of the measure window, whatever the state of
// the generator.
type Result struct {
	// Success is the share of requests of class 2xx, 0..1, nil without requests.
	Success *float64 `json:"success,omitempty"`
	// Failures are the failed requests by cause, the most frequent first.
	Failures []Cause `json:"failures,omitempty"`
}

// Cause is one cause of failed requests.
type Cause struct {
	Cause  string `json:"cause"` // "status 503", or a kind of [Report.Errors]
	Count  int64  `json:"count"`
	Detail string `json:"detail,omitempty"` // text of the first error, if the cause has one
}

// String is the cause as people read it: "certificate refused: x509: …".
func (c Cause) String() string {
	if c.Detail == "" {
		return c.Cause
	}
	return c.Cause + ": " + c.Detail
}

// CauseStatus is the start of a cause that is a status.
const CauseStatus = "status "

// Failed is the number of failed requests.
func (r *Result) Failed() (n int64) {
	for _, c := range r.Failures {
		n += c.Count
	}
	return n
}

// Generator is the state of the generator in the measure window, whatever the outcome
// of the requests.
type Generator struct {
	// OK: the figures describe the server. Otherwise Limits are the reasons.
	OK     bool     `json:"ok"`
	Limits []string `json:"limits,omitempty"`
	// Notes are deviations within the limits. They belong beside the times.
	Notes []string `json:"notes,omitempty"`
}

// Classes of failed requests in [Report.FailedMS]. Class 2xx has the answers that
// failed a check.
const (
	Succeeded   = "ok"   // only in [Report.Times]
	FailedGRPC  = "grpc" // a grpc-status other than 0
	FailedOther = "other"
)

// NoneDue reports whether the schedule had no request in the measure window.
func (r *Report) NoneDue() bool {
	return r.Loop == "open" && r.Intended == 0 && r.MeasureEnd.After(r.MeasureStart)
}

// Note adds a note on the generator, which is also a warning.
func (r *Report) Note(format string, args ...any) {
	r.Generator.Notes = append(r.Generator.Notes, fmt.Sprintf(format, args...))
	r.Warn(format, args...)
}

// Warn adds a warning.
func (r *Report) Warn(format string, args ...any) {
	r.Warnings = append(r.Warnings, fmt.Sprintf(format, args...))
}

// Limit adds a reached limit of the generator, which also invalidates the verdict.
func (r *Report) Limit(format string, args ...any) {
	r.Generator.OK = false
	r.Generator.Limits = append(r.Generator.Limits, fmt.Sprintf(format, args...))
	r.Invalidate(format, args...)
}

// Invalidate sets the verdict of v1 and appends the reason to its earlier reasons.
func (r *Report) Invalidate(format string, args ...any) {
	why := fmt.Sprintf(format, args...)
	r.Warnings = append(r.Warnings, why)
	if r.Verdict == "ok" {
		r.Verdict = "invalid: " + why
	} else {
		r.Verdict = strings.Join([]string{r.Verdict, why}, "; ")
	}
}
