package cli

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"

	"github.com/tare-mesh/tare/test/difftest"
	"github.com/tare-mesh/tare/test/must"
)

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
