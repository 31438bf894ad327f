package load

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"github.com/tare-mesh/tare/internal/base/lists"
)

// Failure is the reason why one request failed, or FailureNone if it did not. Every
// failure is counted under its own name in [Report.Errors].
type Failure uint8

const (
	FailureNone Failure = iota
	FailureRefused
	FailureUnreachable
	FailureReset
	FailureClosedEarly
	FailureHalfResponse
	FailureMalformed
	FailureHeaderTooLarge
	FailureExtraBytes
	FailureHeadBody
	FailureTimeout
	FailureNotSent
	FailureNoDescriptors
	FailureNoPorts
	FailureTLS
	FailureCertificate
	FailureALPN
	FailureWrongStatus
	FailureWrongSize
	FailureWrongBody
	FailureNotJSON
	FailureWrongJSON
	FailureProtocol
	FailureStreamReset
	FailureStreamRefused
	FailureGoAway
	FailureNoGRPCStatus
	FailureWrongEcho
	FailureIdleClosed
	FailureFlood
	FailureUpgrade
	FailureFrame
	FailureClose1000
	FailureClose1001
	FailureClose1002
	FailureClose1003
	FailureCloseNoStatus
	FailureClose1007
	FailureClose1008
	FailureClose1009
	FailureClose1011
	FailureClose1012
	FailureClose1013
	FailureCloseOther
	FailureOther
	FailureCount
)

// failureNames are part of the report's contract: scripts match on them.
var failureNames = [FailureCount]string{
	FailureRefused:        "connect refused",
	FailureUnreachable:    "connect failed",
	FailureReset:          "reset",
	FailureClosedEarly:    "closed before an answer",
	FailureHalfResponse:   "half a response",
	FailureMalformed:      "malformed response",
	FailureHeaderTooLarge: "header too large",
	FailureExtraBytes:     "bytes after the response",
	FailureHeadBody:       "body in the response to HEAD",
	FailureTimeout:        "timeout",
	FailureNotSent:        "timeout before a connection was free",
	FailureNoDescriptors:  "out of file descriptors",
	FailureNoPorts:        "out of local ports",
	FailureTLS:            "tls failed",
	FailureCertificate:    "certificate refused",
	FailureALPN:           "alpn mismatch", // the server speaks other protocols over TLS
	FailureWrongStatus:    "wrong status",
	FailureWrongSize:      "wrong size",
	FailureWrongBody:      "wrong body",
	FailureNotJSON:        "not JSON",
	FailureWrongJSON:      "wrong JSON field",
	FailureProtocol:       "http2 protocol error",
	FailureStreamReset:    "stream reset",
	FailureStreamRefused:  "stream refused",
	FailureGoAway:         "goaway",
	FailureNoGRPCStatus:   "no grpc-status",
	FailureWrongEcho:      "other bytes than were sent",
	FailureIdleClosed:     "idle connection closed",        // the server closed it before the request arrived
	FailureFlood:          "http2 frames without progress", // more than any request needs
	FailureUpgrade:        "websocket refused",             // the handshake has another answer than 101
	FailureFrame:          "websocket protocol error",
	FailureClose1000:      "websocket closed 1000 (normal)",
	FailureClose1001:      "websocket closed 1001 (going away)",
	FailureClose1002:      "websocket closed 1002 (protocol error)",
	FailureClose1003:      "websocket closed 1003 (unsupported data)",
	FailureCloseNoStatus:  "websocket closed without status",
	FailureClose1007:      "websocket closed 1007 (invalid data)",
	FailureClose1008:      "websocket closed 1008 (policy)",
	FailureClose1009:      "websocket closed 1009 (too large)",
	FailureClose1011:      "websocket closed 1011 (server error)",
	FailureClose1012:      "websocket closed 1012 (restart)",
	FailureClose1013:      "websocket closed 1013 (try later)",
	FailureCloseOther:     "websocket closed",
	FailureOther:          "other",
}

// Cut reports whether the server ended the connection or the stream under a request.
func (k Failure) Cut() bool {
	switch k {
	case FailureReset, FailureClosedEarly, FailureHalfResponse, FailureStreamReset, FailureStreamRefused, FailureGoAway, FailureIdleClosed:
		return true
	}
	return k >= FailureClose1000 && k <= FailureCloseOther
}

// String is the name of k in a report.
func (k Failure) String() string { return failureNames[k] }

// StatusSet has an entry for every status: whether it is one of success.
type StatusSet [StatusCount]bool

// DefaultSuccess are the statuses of success by default: any 2xx, gRPC's 0, and
// a whole echo.
var DefaultSuccess = func() *StatusSet {
	s := &StatusSet{StatusGRPC: true, StatusEcho: true}
	for code := 200; code < 300; code++ {
		s[code] = true
	}
	return s
}()

// Success are the statuses that count as success.
func (p *Profile) Success() *StatusSet {
	if len(p.ExpectStatus) == 0 {
		return DefaultSuccess
	}
	s := &StatusSet{}
	for _, text := range p.ExpectStatus {
		_ = s.add(text) // validated
	}
	return s
}

// HasStatus reports whether a status is one of a protocol. An echo has none, see [StatusChecks].
func HasStatus(protocol, status string) bool {
	return strings.HasPrefix(status, StatusGRPCPrefix) == (protocol == ProtocolGRPC) || protocol == ProtocolTCP
}

// add adds a status, or the statuses of a class.
func (s *StatusSet) add(text string) error {
	if !IsStatus(text) {
		return fmt.Errorf("expected status %q is none of the forms 200, 2xx and grpc-0", text)
	}
	if text[1:] == "xx" {
		first := int(text[0]-'0') * 100
		for code := first; code < first+100; code++ {
			s[code] = true
		}
		return nil
	}
	s[StatusOf(text)] = true
	return nil
}

// StatusForm is the form of a status: a code (404), a class (3xx), or one of gRPC (grpc-5).
const StatusForm = `^([1-5]xx|[1-9][0-9][0-9]|grpc-([0-9]|1[0-6]))$`

var statusForm = regexp.MustCompile(StatusForm)

// IsStatus reports whether text has the [StatusForm].
func IsStatus(text string) bool { return statusForm.MatchString(text) }

// Statuses of gRPC follow the statuses of HTTP in one table.
const (
	StatusGRPC  = 1000 // grpc-status 0
	GrpcUnknown = 2    // what a code that gRPC does not define means
	GrpcCodes   = 17   // defined by gRPC

	// StatusEcho is the status of an answer without one: all that was sent has come back.
	StatusEcho  = StatusGRPC + GrpcCodes
	StatusCount = StatusEcho + 1
)

// StatusName is a status as [Report.Statuses] has it: "200", "grpc-14".
func StatusName(status int) string {
	if status >= StatusGRPC {
		return StatusGRPCPrefix + strconv.Itoa(status-StatusGRPC)
	}
	return strconv.Itoa(status)
}

const StatusGRPCPrefix = "grpc-"

// StatusOf is the reverse of statusName, 0 if name is none.
func StatusOf(name string) int {
	digits, isGRPC := strings.CutPrefix(name, StatusGRPCPrefix)
	n, err := strconv.Atoi(digits)
	if isGRPC {
		n += StatusGRPC
	}
	if err != nil || n <= 0 || n >= StatusGRPC+GrpcCodes || isGRPC != (n >= StatusGRPC) {
		return 0
	}
	return n
}

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
	return lists.Sum(r.Failures, func(c Cause) int64 { return c.Count })
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
