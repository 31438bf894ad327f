package calls

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/tare-mesh/tare/internal/base/hint"
	"github.com/tare-mesh/tare/internal/base/must"
	"github.com/tare-mesh/tare/internal/load"
)

func open(t *testing.T, text, base string) *Source {
	t.Helper()
	s := must.Get(Open(strings.NewReader(text), "f", base))(t)
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

// Requests of a log are joined, and go to the URL's host.
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
	if s.Note() != "lines without a valid request (1), requests with methods other than GET, HEAD and OPTIONS, whose bodies a log lacks (1)" {
		t.Errorf("omitted %s", s.Note())
	}

	s = open(t, envoyLog, "http://h/")
	if len(s.Calls) != 2 || s.Calls[1].Weight != 2 || s.Calls[0].Name != "locations GET /api/v1/locations/{id}" {
		t.Errorf("%+v", s)
	}
}

func TestMistakesOfSources(t *testing.T) {
	for _, test := range []struct{ text, base, error, hint string }{
		{nginxLog, "", "f:1:1: an access log has no hosts", "give a URL"},
		{`10.0.0.1 - - [10/Oct/2026:13:55:36 +0200] "GET / HTTP/1.1" 200 1` + strings.Repeat("\nnonsense", 20), "http://h/", "f:2:1: 20 of 21 lines are not of an access log, such as \"nonsense\"", "common and combined"},
		{`10.0.0.1 - - [10/Oct/2026:13:55:36 +0200] "POST / HTTP/1.1" 200 1`, "http://h/", "it has no requests", ""},
	} {
		_, err := Open(strings.NewReader(test.text), "f", test.base)
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
	if !slices.Equal(weights, []int{1000, 500, 1}) {
		t.Errorf("weights %v", weights)
	}
}

// Whatever a file contains, its requests have weights.
func FuzzOpen(f *testing.F) {
	f.Add(nginxLog, "http://h/")
	f.Add(envoyLog, "http://h/")
	for _, test := range recordedLogs {
		f.Add(test.text, "http://h/")
	}
	dir := f.TempDir()
	f.Fuzz(func(t *testing.T, text, base string) {
		if strings.Contains(text, "@") {
			t.Skip("names a file")
		}
		s, err := Open(strings.NewReader(text), filepath.Join(dir, "f"), base)
		if err != nil {
			return
		}
		if len(s.Calls) == 0 {
			t.Fatalf("%+v", s)
		}
		for _, c := range s.Calls {
			if s.Log && (c.Weight < 1 || c.Weight > load.MaxWeight) {
				t.Fatalf("weight %d of %s", c.Weight, c.URL)
			}
		}
	})
}
