package target

import (
	"bytes"
	"net/url"
	"strings"
	"testing"
)

// FuzzCookies: cookies of others never break a request, and are bounded.
func FuzzCookies(f *testing.F) {
	f.Add("id=1; Path=/; Max-Age=10\nb=\"2\"; Domain=.example.org; Secure\nid=; Max-Age=0", "http://a.example.org/x/y")
	f.Add("a=b; Expires=Sun, 22 Nov 2026 00:00:00 GMT\nc=d\x00e\n=; Path", "https://127.0.0.1/")
	f.Add("a=b; Max-Age=99999999999999999999", "https://[::1]/a%2Fb")
	f.Fuzz(func(t *testing.T, lines, where string) {
		u, err := url.Parse(where)
		if err != nil || u.Host == "" {
			return
		}
		to := &Target{URL: u}
		user := NewUser([]*Target{to})
		for range 3 {
			user.Set(to, strings.Split(lines, "\n"))
		}
		header := user.Header(to)
		if i := bytes.IndexFunc(header, func(r rune) bool { return r < ' ' || r == 0x7f }); i >= 0 {
			t.Errorf("%q has a control character", header)
		}
		if len(header) > maxCookies*(maxCookie+len("=; ")+2) || len(user.cookies) > maxCookies {
			t.Errorf("%d bytes of %d cookies", len(header), len(user.cookies))
		}
	})
}
