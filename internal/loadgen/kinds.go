package loadgen

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
	kindWrongSize
	kindWrongBody
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
	kindWrongSize:      "wrong size",
	kindWrongBody:      "wrong body",
	kindOther:          "other",
}

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

// class a request that ended with k belongs to.
func (k kind) class() classIndex {
	switch k {
	case kindNone:
		return classOK
	case kindWrongSize, kindWrongBody:
		return classStatus
	case kindTimeout, kindNotSent:
		return classTimeout
	}
	return classConn
}
