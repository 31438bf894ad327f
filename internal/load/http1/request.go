package http1

import (
	"bytes"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/tare-mesh/tare/internal/load"
)

// headerField is a line of a request's header.
type headerField struct {
	name, value string
}

// BuildRequest encodes the request once, and every send writes the same bytes.
func BuildRequest(u *url.URL, p *load.Profile, body []byte) []byte {
	bodily := hasLength(p.Method, len(body) > 0)
	var b bytes.Buffer
	fmt.Fprintf(&b, "%s %s HTTP/1.1\r\n", p.Method, u.RequestURI())
	for _, f := range fieldsOf(u, p, bodily) {
		fmt.Fprintf(&b, "%s: %s\r\n", f.name, f.value)
	}
	if bodily {
		fmt.Fprintf(&b, "Content-Length: %s\r\n", strconv.Itoa(len(body)))
	}
	b.WriteString("\r\n")
	b.Write(body)
	return b.Bytes()
}

// hasLength reports whether a request has a Content-Length.
func hasLength(method string, body bool) bool {
	return body || method == http.MethodPost || method == http.MethodPut || method == http.MethodPatch
}

// fieldsOf are the header fields of a request, except Content-Length. A header of the profile
// replaces the default header of the same name.
func fieldsOf(u *url.URL, p *load.Profile, bodily bool) []headerField {
	fields := []headerField{{"Host", u.Host}, {"User-Agent", "tare"}}
	if kind := p.BodyType(); bodily && kind != "" {
		fields = append(fields, headerField{"Content-Type", kind})
	}
	if p.NoKeepAlive {
		fields = append(fields, headerField{"Connection", "close"})
	}
	defaults := len(fields)
	for _, h := range p.Headers {
		name, value, _ := strings.Cut(h, ":")
		f := headerField{name, strings.TrimSpace(value)}
		same := slices.IndexFunc(fields[:defaults], func(d headerField) bool { return strings.EqualFold(d.name, name) })
		if same >= 0 {
			f.name = fields[same].name
			fields[same] = f
		} else {
			fields = append(fields, f)
		}
	}
	return fields
}
