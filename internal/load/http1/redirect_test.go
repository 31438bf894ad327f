package http1

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/tare-mesh/tare/internal/load"
)

func TestWhereRedirectsLead(t *testing.T) {
	p := load.Profile{Targets: []string{"http://a.test/x/y?q"}, Measure: time.Second, ExpectSize: -1}.WithDefaults()
	p.Follow = 3
	u, _ := load.ParseTarget(p.Targets[0])
	r := Redirects{Profile: &p}
	for _, test := range []struct {
		location, want, origin string
		k                      load.Failure
	}{
		{"z", "GET /x/z HTTP/1.1", "http://a.test:80", load.FailureNone},
		{"?r", "GET /x/y?r HTTP/1.1", "http://a.test:80", load.FailureNone},
		{"//B.test", "GET / HTTP/1.1", "http://b.test:80", load.FailureNone},
		{"https://a.test", "GET / HTTP/1.1", "https://a.test:443", load.FailureNone},
		{"http://A.test:80/q", "GET /q HTTP/1.1", "http://a.test:80", load.FailureNone},
		{"tcp://a.test:1", "", "", load.FailureBadRedirect},
		{"mailto:a@b", "", "", load.FailureBadRedirect},
		{"%zz", "", "", load.FailureBadRedirect},
	} {
		to, k := r.Next(RootHop(u, &p), 0, http.StatusFound, []byte(test.location))
		if k != test.k || k == load.FailureNone && (to.Origin != test.origin || !strings.HasPrefix(string(to.Request), test.want+"\r\n")) {
			t.Errorf("%s: %v, %+v", test.location, k, to)
		}
	}
}

// A server that generates names does not exhaust the memory, whatever the size of the body.
func TestRedirectsKeptAreBounded(t *testing.T) {
	p := load.Profile{Targets: []string{"http://a.test/"}, Method: http.MethodPost, Measure: time.Second, ExpectSize: -1}.WithDefaults()
	p.Follow = 1
	u, _ := load.ParseTarget(p.Targets[0])
	r, root := Redirects{Profile: &p, Body: make([]byte, 1<<20)}, RootHop(u, &p)
	for i := range 40 {
		if _, k := r.Next(root, 0, http.StatusTemporaryRedirect, fmt.Append(nil, "/", i)); k != load.FailureNone {
			t.Fatal(k)
		}
		kept := 0
		for _, h := range r.hops {
			kept += len(h.Request)
		}
		if kept == 0 || kept > maxBytes {
			t.Errorf("%d redirects of %d bytes are kept", len(r.hops), kept)
		}
	}
	last, _ := r.Next(root, 0, http.StatusTemporaryRedirect, []byte("/39"))
	if again, _ := r.Next(root, 0, http.StatusTemporaryRedirect, []byte("/39")); again != last {
		t.Error("the last redirect is not kept")
	}
}
