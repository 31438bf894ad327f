package result_test

import (
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/tare-mesh/tare/internal/result"
	"github.com/tare-mesh/tare/test/must"
)

// listing is every file of a directory with its mode, size and time.
func listing(t *testing.T, dir string) map[string]string {
	t.Helper()
	all := map[string]string{}
	must.OK(t, filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err == nil {
			all[path] = fs.FormatFileInfo(info)
		}
		return err
	}))
	return all
}

// next are the messages of the follower's next events.
func next(t *testing.T, f *result.Follower) string {
	t.Helper()
	events := must.Get(f.Next())(t)
	var all []string
	for _, e := range events {
		all = append(all, e.Trial+" "+e.Kind+e.Message)
	}
	return strings.Join(all, ", ")
}

func TestFollower(t *testing.T) {
	d := create(t)
	other := must.Get(result.Open(d.Path()))(t)
	f := result.Follow(other)
	if got := next(t, f); got != "" {
		t.Errorf("before the first trial: %s", got)
	}
	trials := d.Plan().Trials
	one := must.Get(d.Trial(trials[0]))(t)
	two := must.Get(d.Trial(trials[1]))(t)
	at := time.Now().Add(-time.Minute)
	log := func(td *result.TrialDir, after time.Duration, message string) {
		t.Helper()
		must.OK(t, td.Event(result.Event{Time: at.Add(after), Kind: result.KindLog, Message: message}))
	}
	log(one, 1, "a")
	log(one, 3, "c")
	log(two, 2, "b")
	log(two, time.Hour, "later")
	before := listing(t, d.Path())
	if got, want := next(t, f), "1-none-b1 loga, 2-envoy-b1 logb, 1-none-b1 logc"; got != want {
		t.Errorf("in order of time: %s", got)
	}
	if got := next(t, f); got != "" {
		t.Errorf("again: %s", got)
	}
	// A line that is not complete yet is read when it is.
	file := must.Get(os.OpenFile(one.Path(result.EventsFile), os.O_APPEND|os.O_WRONLY, 0))(t)
	defer file.Close()
	line := `{"t":"2026-03-01T12:00:00Z","kind":"log","trial":"../other","message":"torn"}` + "\n"
	for i, part := range []string{line[:30], line[30:]} {
		must.Get(file.WriteString(part))(t)
		if got, want := next(t, f), []string{"", "1-none-b1 logtorn"}[i]; got != want {
			t.Errorf("part %d of a line: %q, want %q", i+1, got, want)
		}
	}
	if ended, err := other.Ended(); err != nil || ended {
		t.Errorf("ended: %v, %v", ended, err)
	}
	after := listing(t, d.Path())
	delete(before, one.Path(result.EventsFile))
	delete(after, one.Path(result.EventsFile))
	if !maps.Equal(before, after) {
		t.Errorf("following changed the directory: %v, then %v", before, after)
	}
}

func TestEnded(t *testing.T) {
	d := create(t)
	finish(t, d, d.Plan().Trials[0])
	if ended, err := d.Ended(); err != nil || ended {
		t.Errorf("after the first trial: %v, %v", ended, err)
	}
	must.OK(t, d.Close())
	if ended, err := d.Ended(); err != nil || !ended {
		t.Errorf("after an interrupt: %v, %v", ended, err)
	}
}

// A recorded trial without stored events, as of an import, is replayed with its outcome.
func TestReplayWithoutEvents(t *testing.T) {
	d := create(t)
	trials := d.Plan().Trials
	finish(t, d, trials[0])
	must.OK(t, os.Remove(d.TrialFile(trials[0].ID, result.EventsFile)))
	var kinds []string
	for e, err := range d.Replay() {
		must.OK(t, err)
		kinds = append(kinds, e.Kind)
	}
	if got := strings.Join(kinds, " "); got != "trial done" {
		t.Errorf("events: %s", got)
	}
}
