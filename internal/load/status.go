package load

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
)

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
