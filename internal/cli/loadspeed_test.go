package cli

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/tare-mesh/tare/internal/base/difftest"
	"github.com/tare-mesh/tare/internal/base/must"
)

// The requests of a log reach the server in their order, at their instants divided by the speed,
// and their figures are by pattern.
func TestSpeed(t *testing.T) {
	var mu sync.Mutex
	var got []string
	s := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		got = append(got, r.RequestURI)
	}))
	t.Cleanup(s.Close)
	const line = `1.1.1.1 - - [10/Oct/2026:13:55:`
	file := filepath.Join(t.TempDir(), "access.log")
	text := line + "36 +0200] \"GET /items/1 HTTP/1.1\" 200 1\n" + line + "40 +0200] \"GET / HTTP/1.1\" 200 1\n" + line + "44 +0200] \"GET /items/1 HTTP/1.1\" 200 1\n" + line + "48 +0200] \"GET /items/2 HTTP/1.1\" 200 1\n"
	must.OK(t, os.WriteFile(file, []byte(text), 0o600))
	out, err := runLoadCommand(t, s.URL, "--targets", file, "--speed", "20x")
	if want := []string{"/items/1", "/", "/items/1", "/items/2"}; err != nil || !slices.Equal(got, want) {
		t.Errorf("%q, %v\n%s", got, err, out)
	}
	must.Contain(t, out, "4 requests in 601ms", "GET /items/{id}")
	for _, args := range [][]string{{"--speed", "fast"}, {"--speed", "0"}, {"--speed", "2x", "-r", "5"}, {"--speed", "2x", "-w", "2"}} {
		if out, err := runLoadCommand(t, append([]string{s.URL, "--targets", file}, args...)...); err == nil {
			t.Errorf("%q is accepted\n%s", args, out)
		}
	}
	f, _ := parsedLoadFlags(t, "--targets", "-", "--speed", "2x")
	f.in = strings.NewReader("GET http://a/\n")
	must.Fail(t, must.Err(f.build(nil)), "--speed needs requests with instants")
}

// A request of a file has the headers of the file, and no media type by default.
func TestTypesOfTargets(t *testing.T) {
	var mu sync.Mutex
	got := map[string][]string{}
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		got[r.URL.Path] = r.Header["Content-Type"]
	}))
	s.Config.Protocols = new(http.Protocols)
	s.Config.Protocols.SetHTTP1(true)
	s.Config.Protocols.SetUnencryptedHTTP2(true)
	s.Start()
	t.Cleanup(s.Close)
	dir := t.TempDir()
	file := filepath.Join(dir, "targets")
	text := "POST " + s.URL + "/none\n@body\n\nPOST " + s.URL + "/typed\nContent-Type: text/plain\n@body\n\nPOST " + s.URL + "/empty\n"
	must.OK(t, errors.Join(os.WriteFile(file, []byte(text), 0o600), os.WriteFile(filepath.Join(dir, "body"), []byte("x"), 0o600)))
	for _, protocol := range []string{"--http2=false", "--http2"} {
		clear(got)
		out, err := runLoadCommand(t, "--targets", file, "-n", "12", "-c", "1", protocol)
		if err != nil {
			t.Errorf("%s: %q, %v\n%s", protocol, got, err, out)
		} else if d := difftest.Wrong(`got["/none"] != nil`, got["/none"] != nil, `got["/empty"] != nil`, got["/empty"] != nil, `!slices.Equal(got["/typed"], []string{"text/plain"})`, !slices.Equal(got["/typed"], []string{"text/plain"}), "len(got) != 3", len(got) != 3); d != "" {
			t.Errorf("%s: %s: %q, %v\n%s", d, protocol, got, err, out)
		}
	}
}
