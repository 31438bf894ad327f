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

// BuildRequest encodes the request once; every send writes the same bytes. A header
// of the profile replaces the default header of the same name.
func BuildRequest(u *url.URL, p *load.Profile, body []byte) []byte {
	fields := [][2]string{{"Host", u.Host}, {"User-Agent", "tare"}}
	if len(body) > 0 || p.Method == http.MethodPost || p.Method == http.MethodPut || p.Method == http.MethodPatch {
		fields = append(fields, [2]string{"Content-Type", "application/octet-stream"}, [2]string{"Content-Length", strconv.Itoa(len(body))})
	}
	if p.NoKeepAlive {
		fields = append(fields, [2]string{"Connection", "close"})
	}
	own := len(fields)
	for _, h := range p.Headers {
		name, value, _ := strings.Cut(h, ":")
		value = strings.TrimSpace(value)
		same := slices.IndexFunc(fields[:own], func(f [2]string) bool { return strings.EqualFold(f[0], name) })
		if same >= 0 {
			fields[same][1] = value
		} else {
			fields = append(fields, [2]string{name, value})
		}
	}
	var b bytes.Buffer
	fmt.Fprintf(&b, "%s %s HTTP/1.1\r\n", p.Method, u.RequestURI())
	for _, f := range fields {
		fmt.Fprintf(&b, "%s: %s\r\n", f[0], f[1])
	}
	b.WriteString("\r\n")
	b.Write(body)
	return b.Bytes()
}
