package session

import (
	"testing"
	"time"

	"github.com/tare-mesh/tare/internal/result"
)

// An expected time has a warning if more than its processors is to run.
func TestBusyWords(t *testing.T) {
	for loads, want := range map[string]string{"2.31 1.90 1.02 3/410 99\n": ", longer while others use this machine: load average 2.31 on 2 CPUs", "2.00 9.00 9.00 1/1 1\n": "", "": ""} {
		if got := busyWords(loads, 2); got != want {
			t.Errorf("%q: %q, want %q", loads, got, want)
		}
	}
}

// Trials of a round overlap. Their time counts once.
func TestSpent(t *testing.T) {
	at := time.Date(2026, 11, 1, 12, 0, 0, 0, time.UTC)
	trial := func(from, to int, failed string) result.Record {
		return result.Record{Started: at.Add(time.Duration(from) * time.Second), Ended: at.Add(time.Duration(to) * time.Second), Error: failed}
	}
	for name, c := range map[string]struct {
		records []result.Record
		want    time.Duration
		n       int
	}{
		"none":        {nil, 0, 0},
		"a round":     {[]result.Record{trial(0, 20, ""), trial(0, 21, ""), trial(24, 44, "")}, 44 * time.Second, 3},
		"a failure":   {[]result.Record{trial(0, 20, ""), trial(21, 400, "no image"), trial(401, 421, "")}, 41 * time.Second, 2},
		"interrupted": {[]result.Record{trial(0, 20, ""), trial(9000, 9020, "")}, 40 * time.Second, 2},
		"an import":   {[]result.Record{{}, {}}, 0, 0},
	} {
		if got, n := spent(c.records); got != c.want || n != c.n {
			t.Errorf("%s: %v in %d trials, want %v in %d", name, got, n, c.want, c.n)
		}
	}
}
