package engine

import (
	"net/http"
	"slices"
	"testing"
	"time"

	"github.com/tare-mesh/tare/internal/load"
	"github.com/tare-mesh/tare/test/must"
)

// Checks of status and JSON, over HTTP/1.1 and HTTP/2.
func TestStatusAndJSONChecks(t *testing.T) {
	t.Parallel()
	const failing, fine = `{"smiley": "\"errors\": 1", "errors": ["no color"], "data": {"errors": null}}`, `{"smiley": 1, "errors": []}`
	answers := map[string]struct {
		status int
		body   string
	}{"/failing": {200, failing}, "/fine": {200, fine}, "/text": {200, "hello"}, "/half": {200, `{"a": [1`}, "/none": {404, fine}, "/teapot": {418, ""}}
	handler := func(w http.ResponseWriter, r *http.Request) {
		a := answers[r.URL.Path]
		w.WriteHeader(a.status)
		for b := []byte(a.body); len(b) > 0; { // in pieces, so chunked
			n := min(7, len(b))
			_, _ = w.Write(b[:n])
			w.(http.Flusher).Flush()
			b = b[n:]
		}
	}
	protocols := map[string]string{load.ProtocolHTTP1: httpServer(t, handler), load.ProtocolHTTP2: h2Server(t, handler)}
	for _, test := range []struct {
		path               string
		status, has, lacks []string
		class              load.Class
		kind               string
	}{
		{"/fine", nil, nil, []string{"errors"}, load.OK, ""},
		{"/failing", nil, nil, []string{"errors"}, load.Status, "wrong JSON field"},
		{"/failing", nil, nil, []string{"data.errors", "x"}, load.OK, ""},
		{"/failing", nil, []string{"smiley", "errors"}, nil, load.OK, ""},
		{"/fine", nil, []string{"errors"}, nil, load.Status, "wrong JSON field"},
		{"/text", nil, nil, []string{"errors"}, load.Status, "not JSON"},
		{"/half", nil, nil, []string{"errors"}, load.Status, "not JSON"},
		{"/fine", []string{"200"}, nil, nil, load.OK, ""},
		{"/fine", []string{"201", "3xx"}, nil, nil, load.Status, "wrong status"},
		{"/none", []string{"2xx", "404"}, nil, nil, load.OK, ""},
		{"/none", []string{"404"}, nil, []string{"smiley"}, load.Status, "wrong JSON field"},
		{"/none", nil, nil, []string{"smiley"}, load.Status, ""},
		{"/teapot", []string{"4xx"}, nil, nil, load.OK, ""},
	} {
		for protocol, url := range protocols {
			p := profile(url + test.path)
			p.Protocol, p.Rate, p.Warmup, p.Tail, p.Measure = protocol, 100, 0, 0, 100*time.Millisecond
			p.ExpectStatus, p.JSONHas, p.JSONLacks = test.status, test.has, test.lacks
			r := mustRun(t, p)
			var want int64
			if test.kind != "" {
				want = 10
			}
			if r.Classes[test.class] != 10 || r.Errors[test.kind] != want || len(r.Errors) > 1 {
				t.Errorf("%s over %s, %v %v %v: %v, %v", test.path, protocol, test.status, test.has, test.lacks, r.Classes, r.Errors)
			}
		}

	}
}

// TestChecksThatAreNone checks that invalid checks are refused, each by name.
func TestChecksThatAreNone(t *testing.T) {
	for _, test := range []struct {
		protocol, method   string
		status, has, lacks []string
		want               string
	}{
		{"", "", []string{"20"}, nil, nil, `expected status "20"`},
		{"", "", []string{"ok"}, nil, nil, `expected status "ok"`},
		{"", "", []string{"6xx"}, nil, nil, `expected status "6xx"`},
		{"", "", []string{"0200"}, nil, nil, `expected status "0200"`},
		{"", "", []string{"grpc-0"}, nil, nil, "protocol http1 has no status grpc-0"},
		{load.ProtocolGRPC, "", []string{"200"}, nil, nil, "protocol grpc has no status 200"},
		{load.ProtocolGRPC, "", []string{"grpc-17"}, nil, nil, `expected status "grpc-17"`},
		{load.ProtocolTCP, "", []string{"200"}, nil, nil, "protocol tcp does not support checks of the status"},
		{load.ProtocolTCP, "", nil, nil, []string{"errors"}, "protocol tcp does not support checks of JSON fields"},
		{load.ProtocolGRPC, "", nil, nil, []string{"errors"}, "protocol grpc does not support checks of JSON fields"},
		{"", http.MethodHead, nil, []string{"a"}, nil, "an answer to HEAD"},
		{"", "", nil, []string{"a..b"}, nil, `JSON field "a..b"`},
		{"", "", nil, nil, slices.Repeat([]string{"a"}, 65), "65 JSON fields"},
	} {
		p := profile("http://127.0.0.1:1/a/b")
		p.Protocol, p.Method, p.ExpectStatus, p.JSONHas, p.JSONLacks = test.protocol, test.method, test.status, test.has, test.lacks
		must.Fail(t, p.Validate(), test.want, test)
	}
}
