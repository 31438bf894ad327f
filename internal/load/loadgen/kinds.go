package loadgen

import (
	"strconv"
	"strings"
)

// kind says what went wrong with one request; kindNone is nothing. Every kind
// is counted under its own name in [Report.Errors].
type kind uint8

const (
	kindNone kind = iota
	kindRefused
	kindUnreachable
	kindReset
	kindClosedEarly
	kindHalfResponse
	kindMalformed
	kindHeaderTooLarge
	kindExtraBytes
	kindTimeout
	kindNotSent
	kindNoDescriptors
	kindNoPorts
	kindTLS
	kindCertificate
	kindALPN
	kindWrongStatus
	kindWrongSize
	kindWrongBody
	kindNotJSON
	kindWrongJSON
	kindProtocol
	kindStreamReset
	kindStreamRefused
	kindGoAway
	kindNoGRPCStatus
	kindWrongEcho
	kindRedirects
	kindBadRedirect
	kindNoName
	kindLookup
	kindLookupTimeout
	kindOther
	kinds
)

// kindNames are part of the report's contract: scripts match on them.
var kindNames = [kinds]string{
	kindRefused:        "connect refused",
	kindUnreachable:    "connect failed",
	kindReset:          "reset",
	kindClosedEarly:    "closed before an answer",
	kindHalfResponse:   "half a response",
	kindMalformed:      "malformed response",
	kindHeaderTooLarge: "header too large",
	kindExtraBytes:     "bytes after the response",
	kindTimeout:        "timeout",
	kindNotSent:        "timeout before a connection was free",
	kindNoDescriptors:  "out of file descriptors",
	kindNoPorts:        "out of local ports",
	kindTLS:            "tls failed",
	kindCertificate:    "certificate refused",
	kindALPN:           "alpn mismatch", // the server speaks other protocols over TLS
	kindWrongStatus:    "wrong status",
	kindWrongSize:      "wrong size",
	kindWrongBody:      "wrong body",
	kindNotJSON:        "not JSON",
	kindWrongJSON:      "wrong JSON field",
	kindProtocol:       "http2 protocol error",
	kindStreamReset:    "stream reset",
	kindStreamRefused:  "stream refused",
	kindGoAway:         "goaway",
	kindNoGRPCStatus:   "no grpc-status",
	kindWrongEcho:      "other bytes than were sent",
	kindRedirects:      "too many redirects",
	kindBadRedirect:    "redirect to nowhere",
	kindNoName:         "no such host",
	kindLookup:         "name look-up failed",
	kindLookupTimeout:  "timeout before the name was resolved",
	kindOther:          "other",
}

// String is the name of k in a report.
func (k kind) String() string { return kindNames[k] }

// classIndex is a [Class] as an array index.
type classIndex uint8

const (
	classOK classIndex = iota
	classStatus
	classTimeout
	classConn
	classCount
)

var classNames = [classCount]Class{OK, Status, Timeout, Conn}

// classOf is the class of a request that ended with k.
func classOf(k kind) classIndex {
	switch k {
	case kindNone:
		return classOK
	case kindWrongStatus, kindWrongSize, kindWrongBody, kindNotJSON, kindWrongJSON, kindRedirects, kindBadRedirect:
		return classStatus
	case kindTimeout, kindNotSent, kindLookupTimeout:
		return classTimeout
	}
	return classConn
}

// Statuses of gRPC follow those of HTTP in one table.
const (
	grpcBase    = 1000 // grpc-status 0
	grpcUnknown = 2    // what a code that gRPC does not define means
	grpcCodes   = 17   // defined by gRPC

	// statusEcho is the status of an answer without one: all that was sent has come back.
	statusEcho = grpcBase + grpcCodes
	statuses   = statusEcho + 1
)

// statusName is a status as [Report.Statuses] has it: "200", "grpc-14".
func statusName(status int) string {
	if status >= grpcBase {
		return grpcPrefix + strconv.Itoa(status-grpcBase)
	}
	return strconv.Itoa(status)
}

const grpcPrefix = "grpc-"

// statusOf is the reverse of statusName; 0 if name is none.
func statusOf(name string) int {
	digits, isGRPC := strings.CutPrefix(name, grpcPrefix)
	n, err := strconv.Atoi(digits)
	if isGRPC {
		n += grpcBase
	}
	if err != nil || n <= 0 || n >= grpcBase+grpcCodes || isGRPC != (n >= grpcBase) {
		return 0
	}
	return n
}
