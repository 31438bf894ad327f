package target

import (
	"fmt"
	"net/url"
	"testing"

	"github.com/tare-mesh/tare/test/must"
)

func TestPortsAndLiterals(t *testing.T) {
	for _, test := range []struct{ url, want string }{
		{"http://127.0.0.1", "127.0.0.1:80"}, {"https://[::1]/", "[::1]:443"}, {"http://[fe80::1%25lo]:7", "[fe80::1%lo]:7"}, {"http://a.test:1", ""},
	} {
		u := must.Get(url.Parse(test.url))(t)
		got := ""
		if addrs := literal(u); len(addrs) == 1 {
			got = fmt.Sprint(addrs[0])
		}
		if got != test.want {
			t.Errorf("%s: %q, want %q", test.url, got, test.want)
		}
	}
}
