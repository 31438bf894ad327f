package engine

import (
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"sync/atomic"
	"testing"

	"github.com/tare-mesh/tare/internal/load"
	"github.com/tare-mesh/tare/internal/load/record"
	"github.com/tare-mesh/tare/test/difftest"
	"github.com/tare-mesh/tare/test/must"
)

// Every request is in the file of answers, with the version that served it.
func TestAnswersHaveTheVersionThatServedThem(t *testing.T) {
	t.Parallel()
	var served atomic.Int64
	p := profile(httpServer(t, func(w http.ResponseWriter, _ *http.Request) {
		n := served.Add(1)
		if n > 10 {
			w.Header().Set("X-Tare-Version", strconv.FormatInt(n/10, 10)+" 127.0.0.2:1")
		}
		if n%10 == 0 {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
	}))
	p.AnswersPath = filepath.Join(t.TempDir(), "answers.csv")
	r := mustRun(t, p)
	f := must.Get(os.Open(p.AnswersPath))(t)
	defer f.Close()
	answers := must.Get(record.ReadAnswers(f))(t)
	if int64(len(answers)) != served.Load() || r.Classes[load.OK] == 0 {
		t.Errorf("%d answers in the file, and %d were served", len(answers), served.Load())
	}
	versions, failed := map[string]int{}, 0
	last := map[int]int64{}
	for _, a := range answers {
		versions[a.Version]++
		if !a.OK {
			failed++
		}
		if d := difftest.Wrong("a.End <= a.Sent", a.End <= a.Sent, "a.Sent < last[a.Conn]", a.Sent < last[a.Conn], "a.Conn < 0", a.Conn < 0, "a.Conn >= p.Connections", a.Conn >= p.Connections); d != "" {
			t.Errorf("%s: connection %d: sent at %d, answered at %d, after one at %d", d, a.Conn, a.Sent, a.End, last[a.Conn])
		}
		last[a.Conn] = a.End
	}
	if versions[""] != 10 {
		t.Errorf("%d answers without a version, want the first 10", versions[""])
	}
	if want := int(served.Load() / 10); failed != want {
		t.Errorf("%d answers failed, want %d", failed, want)
	}
	if n := versions["2 127.0.0.2:1"]; n != 10 {
		t.Errorf("%d answers of version 2, want 10: %v", n, versions)
	}

}
