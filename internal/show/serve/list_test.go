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

	"github.com/tare-mesh/tare/internal/answer/answertest"
)

// BenchmarkListOfThousandRuns is the time of a list, summaries made.
func BenchmarkListOfThousandRuns(b *testing.B) {
	one, runs := filepath.Join(b.TempDir(), "one"), b.TempDir()
	s := answertest.Quickstart()
	s.Blocks, s.Bare = 1, true
	if err := s.Write(b, one).Close(); err != nil {
		b.Fatal(err)
	}
	for i := range 1000 {
		if err := os.CopyFS(filepath.Join(runs, fmt.Sprintf("run-%04d", i)), os.DirFS(one)); err != nil {
			b.Fatal(err)
		}
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
	r, err := http.NewRequestWithContext(b.Context(), http.MethodGet, base+"/", nil)
	if err != nil {
		b.Fatal(err)
	}
	w := httptest.NewRecorder()
	s.ServeHTTP(w, r)
	return w.Body.String()
}
