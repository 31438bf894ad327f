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
)

func TestTornEvents(t *testing.T) {
	d := create(t)
	td, err := d.Trial(d.Plan().Trials[0])
	if err != nil {
		t.Fatal(err)
	}
	long := strings.Repeat("x", 200_000) // longer than the reader's buffer
	for _, m := range []string{"a", long, "c"} {
		if err := td.Event(result.Event{Kind: result.KindLog, Time: time.Unix(1, 0), Message: m}); err != nil {
			t.Fatal(err)
		}
	}
	path := td.Path(result.EventsFile)
	whole, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
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
			if err := os.WriteFile(path, []byte(c.content), 0o600); err != nil {
				t.Fatal(err)
			}
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
	d, err := result.Create(filepath.Join(b.TempDir(), "run"), nil, smallPlan(), result.Environment{})
	if err != nil {
		b.Fatal(err)
	}
	defer d.Close()
	td, err := d.Trial(d.Plan().Trials[0])
	if err != nil {
		b.Fatal(err)
	}
	e := result.Event{Time: time.Now(), Kind: result.KindSample, Trial: "1", Sample: &result.Sample{Tasks: map[string]result.Reading{}}}
	for i := range 6 {
		e.Sample.Tasks[fmt.Sprintf("echo-%d/app", i)] = result.Reading{At: time.Now(), CPU: 1e9, RSS: 20 << 20, Peak: 21 << 20}
	}
	line, err := json.Marshal(e)
	if err != nil {
		b.Fatal(err)
	}
	b.SetBytes(int64(len(line)))
	b.ReportAllocs()
	for b.Loop() {
		if err := td.Event(e); err != nil {
			b.Fatal(err)
		}
	}
}
