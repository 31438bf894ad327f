package rpc

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// Code is a status code of gRPC (google.rpc.Code).
type Code uint32

// The codes.
const (
	OK Code = iota
	Canceled
	Unknown
	InvalidArgument
	DeadlineExceeded
	NotFound
	AlreadyExists
	PermissionDenied
	ResourceExhausted
	FailedPrecondition
	Aborted
	OutOfRange
	Unimplemented
	Internal
	Unavailable
	DataLoss
	Unauthenticated
)

var codeNames = [...]string{"OK", "Canceled", "Unknown", "InvalidArgument", "DeadlineExceeded", "NotFound", "AlreadyExists", "PermissionDenied",
	"ResourceExhausted", "FailedPrecondition", "Aborted", "OutOfRange", "Unimplemented", "Internal", "Unavailable", "DataLoss", "Unauthenticated"}

func (c Code) String() string {
	if int(c) < len(codeNames) {
		return codeNames[c]
	}
	return "Code(" + strconv.Itoa(int(c)) + ")"
}

// Error is a status other than [OK].
type Error struct {
	Code    Code
	Message string
}

func (e *Error) Error() string { return fmt.Sprintf("gRPC status %v: %s", e.Code, e.Message) }

// Errorf returns an [*Error].
func Errorf(code Code, format string, args ...any) error {
	return &Error{code, fmt.Sprintf(format, args...)}
}

// codeOf returns the code of an error: the code of an [*Error], or the one that a
// context's end or another error means.
func codeOf(err error) Code {
	var e *Error
	switch {
	case err == nil:
		return OK
	case errors.As(err, &e):
		return e.Code
	case errors.Is(err, context.DeadlineExceeded):
		return DeadlineExceeded
	case errors.Is(err, context.Canceled):
		return Canceled
	}
	return Unknown
}

// Names of headers, in the form of [http.Header].
const (
	statusHeader   = "Grpc-Status"
	messageHeader  = "Grpc-Message"
	timeoutHeader  = "Grpc-Timeout"
	encodingHeader = "Grpc-Encoding"
	acceptHeader   = "Grpc-Accept-Encoding"
	contentType    = "application/grpc"
)

// statusOf reads the status in trailers, or in the headers of an answer without a body.
func statusOf(h http.Header) (err error, found bool) {
	text := h.Get(statusHeader)
	if text == "" {
		return nil, false
	}
	n, err := strconv.ParseUint(text, 10, 32)
	switch {
	case err != nil:
		return Errorf(Unknown, "malformed grpc-status %.20q", text), true
	case n == 0:
		return nil, true
	}
	return &Error{Code(n), unescape(h.Get(messageHeader))}, true
}

// httpCodes maps the status of an answer without grpc-status ("HTTP to gRPC Status Code Mapping").
var httpCodes = map[int]Code{
	http.StatusBadRequest: Internal, http.StatusUnauthorized: Unauthenticated, http.StatusForbidden: PermissionDenied,
	http.StatusNotFound: Unimplemented, http.StatusTooManyRequests: Unavailable, http.StatusBadGateway: Unavailable,
	http.StatusServiceUnavailable: Unavailable, http.StatusGatewayTimeout: Unavailable,
}

// escape percent-encodes a message: bytes outside 0x20 to 0x7e, and %.
func escape(s string) string {
	var b strings.Builder
	for i := range len(s) {
		if c := s[i]; c < ' ' || c > '~' || c == '%' {
			fmt.Fprintf(&b, "%%%02X", c)
		} else {
			b.WriteByte(c)
		}
	}
	return b.String()
}

// unescape decodes a message. Invalid escapes remain as they are.
func unescape(s string) string {
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] == '%' && i+2 < len(s) {
			if c, err := strconv.ParseUint(s[i+1:i+3], 16, 8); err == nil {
				b.WriteByte(byte(c))
				i += 2
				continue
			}
		}
		b.WriteByte(s[i])
	}
	return b.String()
}

var timeoutUnits = map[byte]time.Duration{'H': time.Hour, 'M': time.Minute, 'S': time.Second,
	'm': time.Millisecond, 'u': time.Microsecond, 'n': time.Nanosecond}

// maxTimeoutDigits is the max length of the number in grpc-timeout.
const maxTimeoutDigits = 8

// parseTimeout reads grpc-timeout, such as 100m for 100 ms.
func parseTimeout(text string) (time.Duration, error) {
	if n := len(text); n >= 2 && n <= maxTimeoutDigits+1 {
		unit, ok := timeoutUnits[text[n-1]]
		value, err := strconv.ParseUint(text[:n-1], 10, 32)
		if ok && err == nil {
			if value > uint64(1<<63-1)/uint64(unit) {
				return 1<<63 - 1, nil
			}
			return time.Duration(value) * unit, nil
		}
	}
	return 0, Errorf(Internal, "malformed grpc-timeout %.20q", text)
}

// formatTimeout writes grpc-timeout, rounded up so that it is not shorter than d.
func formatTimeout(d time.Duration) string {
	d = max(d, 0)
	for _, unit := range "numSMH" {
		scale := timeoutUnits[byte(unit)]
		n := d / scale
		if d%scale > 0 {
			n++
		}
		if n < 1e8 {
			return strconv.FormatInt(int64(n), 10) + string(unit)
		}
	}
	return "99999999H"
}
