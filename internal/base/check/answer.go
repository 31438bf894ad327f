package check

import "slices"

// Answer describes the answers to one request of a load, as probes received them. A property that varied between
// probes is absent.
type Answer struct {
	Request     string  `json:"request"`               // its name, or method and path
	Probes      int     `json:"probes"`                // number of answers
	Status      string  `json:"status,omitempty"`      // `200`, of gRPC `grpc-0`
	Bytes       *int64  `json:"bytes,omitempty"`       // length of the body
	ContentType *string `json:"contentType,omitempty"` // header Content-Type, may be empty
	SHA256      string  `json:"sha256,omitempty"`      // of the body
}

// Merge adds an answer to the answers of its request, or to the end.
func Merge(all []Answer, a Answer) []Answer {
	i := slices.IndexFunc(all, func(b Answer) bool { return b.Request == a.Request })
	if i < 0 {
		return append(all, a)
	}
	b := &all[i]
	b.Probes += a.Probes
	b.Status, b.SHA256 = common(b.Status, a.Status), common(b.SHA256, a.SHA256)
	b.Bytes, b.ContentType = shared(b.Bytes, a.Bytes), shared(b.ContentType, a.ContentType)
	return all
}

func common(a, b string) string {
	if a != b {
		return ""
	}
	return a
}

func shared[T comparable](a, b *T) *T {
	if a == nil || b == nil || *a != *b {
		return nil
	}
	return a
}

// Differs reports whether two descriptions of answers to one request exclude each other: each has a property with
// another value. The content counts only with several deployments on both sides, since one may print its own port.
func (a Answer) Differs(b Answer, contents bool) bool {
	return a.Status != b.Status && a.Status != "" && b.Status != "" ||
		another(a.Bytes, b.Bytes) || another(a.ContentType, b.ContentType) ||
		contents && a.SHA256 != b.SHA256 && a.SHA256 != "" && b.SHA256 != ""
}

func another[T comparable](a, b *T) bool { return a != nil && b != nil && *a != *b }
