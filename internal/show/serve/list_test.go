package serve

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/tare-mesh/tare/test/answertest"
	"github.com/tare-mesh/tare/test/must"
)

// BenchmarkListOfThousandRuns is the time of a list, summaries made.
func BenchmarkListOfThousandRuns(b *testing.B) {
	one, runs := filepath.Join(b.TempDir(), "one"), b.TempDir()
	s := answertest.Quickstart()
	s.Blocks, s.Bare = 1, true
	must.OK(b, s.Write(b, one).Close())
	for i := range 1000 {
		must.OK(b, os.CopyFS(filepath.Join(runs, fmt.Sprintf("run-%04d", i)), os.DirFS(one)))
	}
	server, base := serving(b, Config{Dirs: []string{runs}})
	for pending := true; pending; time.Sleep(100 * time.Millisecond) {
		pending = strings.Contains(listed(b, server, base), "data-pending")
	}
	for b.Loop() {
		if text := listed(b, server, base); strings.Count(text, `<th scope="row">`) != 1000 {
			b.Fatalf("%.500s", text)
		}
	}
}

func listed(b *testing.B, s *Server, base string) string {
	b.Helper()
	r := must.Get(http.NewRequestWithContext(b.Context(), http.MethodGet, base+"/", nil))(b)
	w := httptest.NewRecorder()
	s.ServeHTTP(w, r)
	return w.Body.String()
}
