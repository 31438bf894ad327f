package load

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
