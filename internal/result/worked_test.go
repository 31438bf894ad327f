package result_test

import (
	"testing"
	"time"

	"github.com/tare-mesh/tare/internal/result"
)

// Trials of a round overlap, a pause between trials belongs to the next one, and an interruption to none.
func TestWorked(t *testing.T) {
	at := time.Date(2026, 11, 1, 12, 0, 0, 0, time.UTC)
	trial := func(from, to time.Duration) result.Record {
		return result.Record{Started: at.Add(from), Ended: at.Add(to)}
	}
	for name, c := range map[string]struct {
		records []result.Record
		want    time.Duration
		n       int
	}{
		"none":        {nil, 0, 0},
		"a round":     {[]result.Record{trial(0, 20*time.Second), trial(0, 21*time.Second)}, 21 * time.Second, 2},
		"unordered":   {[]result.Record{trial(24*time.Second, 44*time.Second), trial(0, 20*time.Second)}, 44 * time.Second, 2},
		"mesh change": {[]result.Record{trial(0, time.Minute), trial(6*time.Minute, 7*time.Minute)}, 7 * time.Minute, 2},
		"interrupted": {[]result.Record{trial(0, time.Minute), trial(6*time.Minute+time.Second, 7*time.Minute+time.Second)}, 2 * time.Minute, 2},
		"an import":   {[]result.Record{{}, {}}, 0, 0},
	} {
		n := 0
		for range result.Spans(c.records) {
			n++
		}
		if got := result.Worked(c.records); got != c.want || n != c.n {
			t.Errorf("%s: %v in %d trials, want %v in %d", name, got, n, c.want, c.n)
		}
	}
}
