package generator

import (
	"strings"

	"github.com/tare-mesh/tare/internal/load"
)

// errorKinds maps the texts of network errors, in lower case, to the engine's error kinds.
// A port number in a message therefore does not create a kind.
var errorKinds = []struct{ contains, kind string }{
	{"connection refused", "connect refused"},
	{"connection reset", "reset"},
	{"broken pipe", "reset"},
	{"unexpected eof", "half a response"},
	{"eof", "closed before an answer"},
	{"server closed", "closed before an answer"},
	{"too many open files", "out of file descriptors"},
	{"cannot assign requested address", "out of local ports"},
	{"no such host", "connect failed"},
	{"no route to host", "connect failed"},
	{"malformed http", "malformed response"},
}

func errorKind(text string) string {
	if ClassOfError(text) == load.Timeout {
		return "timeout"
	}
	text = strings.ToLower(text)
	for _, k := range errorKinds {
		if strings.Contains(text, k.contains) {
			return k.kind
		}
	}
	return "other"
}

// ClassOfError classifies an error text as a timeout or another error.
func ClassOfError(text string) load.Class {
	text = strings.ToLower(text)
	for _, w := range []string{"timeout", "timed out", "deadline", "time-out"} {
		if strings.Contains(text, w) {
			return load.Timeout
		}
	}
	return load.Conn
}
