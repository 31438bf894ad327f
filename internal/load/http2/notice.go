package http2

import "fmt"

// Notice is the reason of an end that the server gave: the code of a RST_STREAM or GOAWAY, and
// the text of the latter. As an error it is that reason.
type Notice struct {
	Given bool
	code  uint32
	text  string
}

// errorCodes are the names of RFC 9113 section 7.
var errorCodes = [...]string{
	"NO_ERROR", "PROTOCOL_ERROR", "INTERNAL_ERROR", "FLOW_CONTROL_ERROR", "SETTINGS_TIMEOUT", "STREAM_CLOSED", "FRAME_SIZE_ERROR",
	"REFUSED_STREAM", "CANCEL", "COMPRESSION_ERROR", "CONNECT_ERROR", "ENHANCE_YOUR_CALM", "INADEQUATE_SECURITY", "HTTP_1_1_REQUIRED",
}

// Error is the code by number and name, and the text.
func (n *Notice) Error() string {
	name := "unknown"
	if int(n.code) < len(errorCodes) {
		name = errorCodes[n.code]
	}
	s := fmt.Sprintf("code %d (%s)", n.code, name)
	if n.text != "" {
		s += ": " + n.text
	}
	return s
}

// IsError reports whether the server ended something because of a fault.
func (n *Notice) IsError() bool { return n.code != codeNone || n.text != "" }

// maxNotice bounds the text of a GOAWAY that is kept, bytes.
const maxNotice = 400

// noticeOf reads the code and the text of a GOAWAY.
func noticeOf(code uint32, debug []byte) Notice {
	return Notice{true, code, string(debug[:min(len(debug), maxNotice)])}
}

// TakeGoAway returns the server's reason to end the connection, once, and nil otherwise.
func (s *Session) TakeGoAway() *Notice {
	if !s.GoAway.Given || s.noticed {
		return nil
	}
	s.noticed = true
	return &s.GoAway
}
