package calls

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tare-mesh/tare/internal/base/difftest"
	"github.com/tare-mesh/tare/internal/base/hint"
	"github.com/tare-mesh/tare/internal/base/must"
)

func open(t *testing.T, text, base string) *Source {
	t.Helper()
	s := must.Get(Open(strings.NewReader(text), "f", base, nil))(t)
	return s
}

const nginxLog = `10.0.0.1 - - [10/Oct/2026:13:55:36 +0200] "GET /items/17?page=2 HTTP/1.1" 200 2326 "-" "curl/8.0"
10.0.0.1 - bob smith [10/Oct/2026:13:55:36 +0200] "GET / HTTP/2.0" 304 0 "-" "-"
10.0.0.1 - - [10/Oct/2026:13:55:37 +0200] "POST /cart HTTP/1.1" 201 10 "-" "-"
10.0.0.1 - - [10/Oct/2026:13:55:36 +0200] "GET / HTTP/1.1" 200 5 "-" "-"
10.0.0.1 - - [10/Oct/2026:13:55:40 +0200] "\x16\x03\x01" 400 157 "-" "-"
2001:db8::1 - - [10/Oct/2026:13:55:41 +0200] "HEAD /a%2Fb HTTP/1.1" 200 5
`

const envoyLog = `[2026-04-15T20:17:00.310Z] "GET /api/v1/locations/0b9f21a6-3b1e-4a4e-9d59-8f5f0e1f7d11 HTTP/2" 200 - 154 0 226 100 "10.0.35.28" "nsq2http" "cc21d9b0" "locations" "tcp://10.0.2.1:80"
[2026-04-15T20:17:00.250Z] "GET /healthz HTTP/1.1" 200 - 0 2 1 0 "-" "-" "-" "a" "-"
[2026-04-15T20:17:01.250Z] "GET /healthz HTTP/1.1" 503 UH 0 2 1 0 "-" "-" "-" "a" "-"
`

// Requests of a log are joined, go to the URL's host, and keep their order and instants.
func TestAccessLogs(t *testing.T) {
	s := open(t, nginxLog, "http://127.0.0.1:8080/x")
	var urls, names []string
	var weights []int
	for _, c := range s.Calls {
		urls, names, weights = append(urls, c.Method+" "+c.URL), append(names, c.Name), append(weights, c.Weight)
	}
	if want := []string{"GET http://127.0.0.1:8080/items/17?page=2", "GET http://127.0.0.1:8080/", "HEAD http://127.0.0.1:8080/a%2Fb"}; !slices.Equal(urls, want) {
		t.Errorf("URLs %q", urls)
	}
	if want := []string{"GET /items/{id}", "GET /", "HEAD /a%2Fb"}; !slices.Equal(names, want) || !slices.Equal(weights, []int{1, 2, 1}) {
		t.Errorf("names %q, weights %v", names, weights)
	}
	// Three requests of one second are spread over it.
	third := time.Second / 3
	if !slices.Equal(s.Order, []int{0, 1, 1, 2}) || !slices.Equal(s.At, []time.Duration{0, third, 2 * third, 5 * time.Second}) || s.Note() != "lines without a valid request (1), requests with methods other than GET, HEAD and OPTIONS, whose bodies a log lacks (1)" {
		t.Errorf("order %v at %v, omitted %s", s.Order, s.At, s.Note())
	}

	s = open(t, envoyLog, "http://h/")
	if !slices.Equal(s.Order, []int{1, 0, 1}) || !slices.Equal(s.At, []time.Duration{0, 60 * time.Millisecond, time.Second}) || s.Calls[0].Name != "locations GET /api/v1/locations/{id}" {
		t.Errorf("%+v", s)
	}
}

func TestHAR(t *testing.T) {
	const har = "\ufeff{\n \"log\": {\"version\":\"1.2\",\"entries\":[" + `
	{"startedDateTime":"2026-01-01T00:00:01.5+01:00","response":{"content":{"text":"x"}},"request":{"method":"POST","url":"https://shop.example/cart/12?a=1#f","headers":[{"name":":authority","value":"x"},{"name":"Host","value":"x"},{"name":"Cookie","value":"s=1"},{"name":"Content-Length","value":"7"},{"name":"content-type","value":"text/plain"}],"postData":{"mimeType":"text/plain","text":"n=1"}}},
	{"startedDateTime":"2026-01-01T00:00:00+01:00","request":{"method":"GET","url":"https://shop.example/","headers":[]}},
	{"startedDateTime":"2026-01-01T00:00:02+01:00","request":{"method":"GET","url":"https://cdn.example/a.js","headers":[]}},
	{"startedDateTime":"2026-01-01T00:00:02+01:00","request":{"method":"GET","url":"data:text/plain,x","headers":[]}}]}}`
	s := open(t, har, "")
	if len(s.Calls) != 3 || s.Note() != "requests of WebSockets, data: or blob: URLs (1)" {
		t.Errorf("%+v", s)
	} else if d := difftest.Of("s.Calls[0].URL", s.Calls[0].URL, "https://shop.example/cart/12?a=1", "s.Calls[0].Name", s.Calls[0].Name, "POST /cart/{id}", "string(s.Calls[0].Body)", string(s.Calls[0].Body), "n=1", `slices.Equal(s.Calls[0].Headers, []string{"Cookie: s=1", "content-type: text/plain"})`, slices.Equal(s.Calls[0].Headers, []string{"Cookie: s=1", "content-type: text/plain"}), true); d != "" {
		t.Errorf("%s: %+v", d, s)
	}
	if !slices.Equal(s.Order, []int{1, 0, 2}) || !slices.Equal(s.At, []time.Duration{0, 1500 * time.Millisecond, 2 * time.Second}) {
		t.Errorf("order %v at %v", s.Order, s.At)
	}
	s = open(t, har, "http://127.0.0.1:1/")
	if len(s.Calls) != 2 || s.Note() != "requests of WebSockets, data: or blob: URLs (1), requests to cdn.example (1)" || s.Calls[1].URL != "http://127.0.0.1:1/" {
		t.Errorf("at another host: %+v", s)
	}
}

func TestInstantsOfJSONLines(t *testing.T) {
	s := open(t, `{"url":"http://a/","at":2.5}`+"\n"+`{"url":"http://b/","at":1}`, "")
	if !slices.Equal(s.Order, []int{1, 0}) || !slices.Equal(s.At, []time.Duration{0, 1500 * time.Millisecond}) {
		t.Errorf("%+v", s)
	}
	s = open(t, `{"url":"http://a/","at":"2026-01-01T00:00:01Z"}`+"\n"+`{"url":"http://b/","at":"2026-01-01T00:00:00Z"}`, "")
	if !slices.Equal(s.At, []time.Duration{0, time.Second}) {
		t.Errorf("%+v", s)
	}
	if s = open(t, "GET http://a/", "http://b/"); s.Order != nil || s.Calls[0].URL != "http://a/" {
		t.Errorf("%+v", s)
	}
}

func TestMistakesOfSources(t *testing.T) {
	for _, test := range []struct{ text, base, error, hint string }{
		{nginxLog, "", "f:1:1: an access log has no hosts", "give a URL"},
		{`10.0.0.1 - - [10/Oct/2026:13:55:36 +0200] "GET / HTTP/1.1" 200 1` + strings.Repeat("\nnonsense", 20), "http://h/", "f:2:1: 20 of 21 lines are not of an access log, such as \"nonsense\"", "common and combined"},
		{`10.0.0.1 - - [99/Oct/2026:13:55:36 +0200] "GET / HTTP/1.1" 200 1`, "http://h/", "f:1:1: \"99/Oct", ""},
		{`10.0.0.1 - - [10/Oct/2026:13:55:36 +0200] "POST / HTTP/1.1" 200 1`, "http://h/", "it has no requests", ""},
		{"{\"log\":\n{\"entries\": 5}}", "", "f:1:1: no HTTP archive", ""},
		{"{\"log\":\n {]}}", "", "f:2:3: no HTTP archive", ""},
		{`{"log":{"entries":[{"startedDateTime":"soon","request":{"method":"GET","url":"http://a/"}}]}}`, "", "entry 1: startedDateTime \"soon\"", ""},
		{`{"url":"http://a/","at":"noon"}`, "", "f:1:1: at: ", "write seconds"},
		{`{"url":"http://a/","at":1e300}`, "", "out of range", ""},
		{`{"url":"http://a/","at":1}` + "\n" + `{"url":"http://a/"}`, "", "request 2 has none", ""},
	} {
		_, err := Open(strings.NewReader(test.text), "f", test.base, nil)
		if err == nil || !strings.Contains(err.Error(), test.error) || !strings.Contains(hint.Of(err), test.hint) {
			t.Errorf("%.60q: %v, hint %q", test.text, err, hint.Of(err))
		}
	}
}

// Weights of a log keep their proportions below the limit of a profile.
func TestWeightsOfLogs(t *testing.T) {
	line := func(path string) string {
		return `1.1.1.1 - - [10/Oct/2026:13:55:36 +0200] "GET ` + path + ` HTTP/1.1" 200 1` + "\n"
	}
	s := open(t, strings.Repeat(line("/a"), 5000)+strings.Repeat(line("/b"), 2500)+line("/c"), "http://h/")
	var weights []int
	for _, c := range s.Calls {
		weights = append(weights, c.Weight)
	}
	if !slices.Equal(weights, []int{1000, 500, 1}) || len(s.Order) != 7501 {
		t.Errorf("weights %v of %d requests", weights, len(s.Order))
	}
}

// Whatever a file contains, its requests have a place in the order, ascending instants and weights.
func FuzzOpen(f *testing.F) {
	f.Add(nginxLog, "http://h/")
	f.Add(envoyLog, "http://h/")
	f.Add(`{"log":{"entries":[{"startedDateTime":"2026-01-01T00:00:00Z","request":{"method":"GET","url":"http://a/1","headers":[]}}]}}`, "")
	f.Add(`{"url":"http://a/","at":1}`, "")
	for _, test := range recordedLogs {
		f.Add(test.text, "http://h/")
	}
	for _, test := range recordedBodies {
		f.Add(harOf(test.entry), "http://h/")
	}
	dir := f.TempDir()
	f.Fuzz(func(t *testing.T, text, base string) {
		if strings.Contains(text, "@") {
			t.Skip("names a file")
		}
		s, err := Open(strings.NewReader(text), filepath.Join(dir, "f"), base, nil)
		if err != nil {
			return
		}
		if len(s.Calls) == 0 || len(s.Order) != len(s.At) {
			t.Fatalf("%+v", s)
		} else if d := difftest.Wrong("!slices.IsSorted(s.At)", !slices.IsSorted(s.At), "len(s.At) > 0 && s.At[0] != 0", len(s.At) > 0 && s.At[0] != 0); d != "" {
			t.Fatalf("%s: %+v", d, s)
		}
		for _, i := range s.Order {
			if i < 0 || i >= len(s.Calls) {
				t.Fatalf("%+v", s)
			}
		}
	})
}
