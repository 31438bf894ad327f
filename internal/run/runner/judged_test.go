package runner

import (
	"cmp"
	"slices"
	"testing"
	"time"

	"github.com/tare-mesh/tare/internal/experiment"
	"github.com/tare-mesh/tare/internal/experiment/expect"
	"github.com/tare-mesh/tare/internal/load"
	"github.com/tare-mesh/tare/internal/result"
	"github.com/tare-mesh/tare/test/must"
)

// A measure phase of 60 s at 100 requests/s, with a pause from 40 s to 45 s. The pause suspends checks from the second
// before it until 10 s after it: from 39 s to 55 s. The expected counts are computed by hand.
func TestChecksJudgeOutsideFaults(t *testing.T) {
	for name, c := range map[string]struct {
		kind     string // "": pause
		recovery time.Duration
		first    time.Duration // the start of the fault, 0: 40 s
		spoil    func(all []second)
		want     []string // codes
		message  string
	}{
		"nothing": {spoil: func([]second) {}},
		"the rate is missed 20 s before the fault": {
			spoil:   func(all []second) { set(all[15:20], func(s *second) { s.completed = 50 }) }, // 250 of 3900, of which 100 can end in second 39
			want:    []string{"rate-missed"},
			message: "3750 of 3900 requests intended from 0s to 39s of the measure phase, outside the faults, were answered until a second later (96.15 %, minimum 99.50 %)",
		},
		"requests are under way a second before the fault": {
			spoil: func(all []second) { all[38].completed = 0 }, // as many answers follow in second 39
		},
		"and a few at the fault": {
			spoil: func(all []second) { all[38].completed, all[39].completed = 50, 26 }, // 24 of 3900: 19.5 and 5 are allowed
		},
		"more than a few": {
			spoil: func(all []second) { all[38].completed, all[39].completed = 50, 25 },
			want:  []string{"rate-missed"},
		},
		"the rate is missed in the fault only": {spoil: func(all []second) {
			set(all[40:45], func(s *second) { s.completed = 0 })
			set(all[45:50], func(s *second) { s.completed = 200 })
		}},
		"requests fail in the fault only": {spoil: func(all []second) {
			set(all[39:45], func(s *second) { s.failed = 100 })
		}},
		"requests fail after the recovery": {
			spoil:   func(all []second) { set(all[55:56], func(s *second) { s.failed = 5 }) }, // of 39 and 5 s of 100
			want:    []string{"errors"},
			message: "5 of 4400 requests outside the faults failed (0.11 %, limit 0.10 %)",
		},
		"requests fail, within the limit": {spoil: func(all []second) { all[10].failed = 4 }},
		"a backlog that outlives the recovery": {spoil: func(all []second) {
			set(all[40:45], func(s *second) { s.completed = 0 })
			set(all[50:60], func(s *second) { s.completed = 150 })
		}},
		"a tenth of a second of requests of the warm-up is under way": {
			spoil: func(all []second) { // 10 of 100: before the fault only the first second is judged
				all[0].completed = 110
			},
			first: 2 * time.Second,
		},
		"more than a tenth of a second": {
			spoil: func(all []second) { all[0].completed = 111 },
			first: 2 * time.Second,
			want:  []string{"rate-exceeded"},
		},
		"a backlog of the warm-up": {
			spoil:   func(all []second) { all[0].completed = 150 }, // 50 of 3900
			want:    []string{"rate-exceeded"},
			message: "3900 requests were due from 0s to 39s of the measure phase, outside the faults, and 3950 were answered, 50 more than were due until then (limit 1 %)",
		},
		"the recovery of the file": {
			recovery: 2 * time.Second,
			spoil:    func(all []second) { set(all[47:50], func(s *second) { s.completed = 0 }) },
			want:     []string{"rate-missed"},
			message:  "1000 of 1300 requests intended from 47s to 1m0s",
		},
		"a kind that fails requests does not delay them": {
			kind: "errors",
			spoil: func(all []second) {
				set(all[40:45], func(s *second) { s.failed = 100 })
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			tr := soundTrial()
			tr.load.profile.Rate = 100
			start := time.Unix(1000, 0)
			l := tr.journal.record.Load
			l.Start, l.End = start, start.Add(time.Minute)
			tr.setup.Experiment.Faults = []experiment.Fault{{Kind: "pause", Recovery: experiment.Duration(c.recovery)}}
			if c.kind != "" {
				tr.setup.Experiment.Faults[0].Kind = c.kind
			}
			tr.journal.record.Faults = []result.Fault{{Start: start.Add(cmp.Or(c.first, 40*time.Second)), Healed: start.Add(45 * time.Second)}}
			seconds := make([]second, 60)
			for i := range seconds {
				seconds[i] = second{at: time.Duration(i) * time.Second, intended: 100, completed: 100, ended: 100}
			}
			c.spoil(seconds)
			tr.seen.seconds = seconds
			tr.journal.record.Tasks = nil // whose readings are of another time
			var codes []string
			text := ""
			for _, w := range tr.checked() {
				codes = append(codes, w.Code)
				text += w.Message
			}
			if !slices.Equal(codes, c.want) {
				t.Errorf("warnings %q, want %q: %s", codes, c.want, text)
			}
			must.Contain(t, text, c.message)
		})
	}
}

func set(seconds []second, do func(*second)) {
	for i := range seconds {
		do(&seconds[i])
	}
}

// A fault that is not healed suspends checks to the end, and a second warm-up may end within a second.
func TestSecondsOfTheMeasurePhase(t *testing.T) {
	reported := []load.Progress{{Second: 0, Intended: 1}, {Second: 1, Intended: 2, Completed: 3}, {Second: 2, Intended: 4, Completed: 5}, {Second: 3}}
	logged := []expect.Second{{OK: 6, Other: 1}, {OK: 7, Status: 2}}
	want := []second{{at: 300 * time.Millisecond, intended: 2, completed: 3, ended: 7, failed: 1}, {at: 1300 * time.Millisecond, intended: 4, completed: 5, ended: 9, failed: 2}}
	if got := joinSeconds(reported, logged, 1, 300*time.Millisecond); !slices.Equal(got, want) {
		t.Errorf("%+v, want %+v", got, want)
	}
	start := time.Unix(1000, 0)
	s := seen{load: &result.Load{Start: start}, seconds: want, faults: []experiment.Fault{{Kind: "kill"}},
		record: &result.Record{Faults: []result.Fault{{Start: start.Add(2300 * time.Millisecond)}}}}
	stretches := s.outside(experiment.Errors)
	if len(stretches) != 1 {
		t.Fatalf("%+v, want one stretch before the fault", stretches)
	}
	if p := stretches[0]; p.to != 1300*time.Millisecond || p.failed != 1 {
		t.Errorf("%+v, want the first second alone", p)
	}
}

// Every check that a kind of fault suspends exists.
func TestSuspendedChecksExist(t *testing.T) {
	for _, k := range experiment.FaultKinds() {
		for _, code := range k.Suspends {
			if !slices.ContainsFunc(checks, func(c validityCheck) bool { return c.code == code }) {
				t.Errorf("%s suspends %q, which is not a check", k.Name, code)
			}
		}
	}
}
