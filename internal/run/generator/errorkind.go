package generator

import "strings"

// errorKinds maps the texts of Go's network errors to the engine's error kinds.
// A port number in a message therefore does not create a kind.
var errorKinds = []struct{ contains, kind string }{
	{"Client.Timeout exceeded", "timeout"},
	{"context deadline exceeded", "timeout"},
	{"DeadlineExceeded", "timeout"},
	{"i/o timeout", "timeout"},
	{"connection refused", "connect refused"},
	{"connection reset", "reset"},
	{"broken pipe", "reset"},
	{"unexpected EOF", "half a response"},
	{"EOF", "closed before an answer"},
	{"server closed", "closed before an answer"},
	{"too many open files", "out of file descriptors"},
	{"cannot assign requested address", "out of local ports"},
	{"no such host", "connect failed"},
	{"no route to host", "connect failed"},
	{"malformed HTTP", "malformed response"},
}

func errorKind(text string) string {
	for _, k := range errorKinds {
		if strings.Contains(text, k.contains) {
			return k.kind
		}
	}
	return "other"
}
