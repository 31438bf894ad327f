package result_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/tare-mesh/tare/internal/result"
	"github.com/tare-mesh/tare/test/must"
)

func TestTornEvents(t *testing.T) {
	d := create(t)
	td := must.Get(d.Trial(d.Plan().Trials[0]))(t)
	long := strings.Repeat("x", 200_000) // longer than the reader's buffer
	for _, m := range []string{"a", long, "c"} {
		must.OK(t, td.Event(result.Event{Kind: result.KindLog, Time: time.Unix(1, 0), Message: m}))
	}
	path := td.Path(result.EventsFile)
	whole := must.Get(os.ReadFile(path))(t)
	for _, c := range []struct {
		name    string
		content string
		n       int
		message string
	}{
		{"whole", string(whole), 3, ""},
		{"empty", "", 0, ""},
		{"torn last line", string(whole[:len(whole)-5]), 2, ""},
		{"last line without its end", string(whole[:len(whole)-1]), 2, ""},
		{"damage in the middle", strings.Replace(string(whole), `{"t"`, `{t`, 1), 0, "events.jsonl:1:"},
		{"damage in line 3", string(whole[:len(whole)-5]) + "\n", 2, "events.jsonl:3:"},
	} {
		t.Run(c.name, func(t *testing.T) {
			must.OK(t, os.WriteFile(path, []byte(c.content), 0o600))
			n := 0
			var failed error
			for _, err := range d.Events(d.Plan().Trials[0].ID) {
				if err != nil {
					failed = err
					break
				}
				n++
			}
			if n != c.n {
				t.Errorf("%d events, want %d", n, c.n)
			}
			if c.message != "" {
				wantError(t, failed, c.message, "")
			} else if failed != nil {
				t.Error(failed)
			}
		})
	}
}

// A run writes thousands of events; their cost falls on the measured machine.
func BenchmarkEventAppend(b *testing.B) {
	d := must.Get(result.Create(filepath.Join(b.TempDir(), "run"), nil, smallPlan(), result.Environment{}))(b)
	defer d.Close()
	td := must.Get(d.Trial(d.Plan().Trials[0]))(b)
	e := result.Event{Time: time.Now(), Kind: result.KindSample, Trial: "1", Sample: &result.Sample{Tasks: map[string]result.Reading{}}}
	for i := range 6 {
		e.Sample.Tasks[fmt.Sprintf("echo-%d/app", i)] = result.Reading{At: time.Now(), CPU: 1e9, RSS: 20 << 20, Peak: 21 << 20}
	}
	line := must.Get(json.Marshal(e))(b)
	b.SetBytes(int64(len(line)))
	b.ReportAllocs()
	for b.Loop() {
		must.OK(b, td.Event(e))
	}
}
