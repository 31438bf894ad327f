package cluster

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/tare-mesh/tare/test/must"
)

// A lower limit is raised while clusters are up, and restored as it was after the last one. A higher one stays.
func TestInotifyRaised(t *testing.T) {
	dir := t.TempDir()
	s := inotifySetting{filepath.Join(dir, "now"), filepath.Join(dir, "own")}
	is := func(when, want string) {
		t.Helper()
		if got := string(must.Get(os.ReadFile(s.now))(t)); got != want {
			t.Errorf("%s: %q, want %q", when, got, want)
		}
	}
	for own, raised := range map[string]string{"128\n": "8192", "16384\n": "16384\n"} {
		must.OK(t, os.WriteFile(s.now, []byte(own), 0o600))
		for _, cluster := range []string{"first", "second"} {
			must.OK(t, s.raise())
			is(cluster, raised)
		}
		must.OK(t, s.restore())
		is("restored", own)
		if _, err := os.Stat(s.own); !os.IsNotExist(err) {
			t.Errorf("%s remains: %v", s.own, err)
		}
		must.OK(t, s.restore())
		is("restored twice", own)
	}
}

// A cluster that would not get its inotify instances is refused with the name of the limit. Other programs of the user
// need theirs, so that the test opens none beyond one.
func TestInotifyLimit(t *testing.T) {
	const limit = 12
	open := 0
	instance := func() (func(), error) {
		if open == limit {
			return nil, unix.EMFILE
		}
		open++
		return func() { open-- }, nil
	}
	if err := freeInotify(limit, instance); err != nil || open != 0 {
		t.Errorf("as many as there are: %v, %d are kept", err, open)
	}
	err := freeInotify(limit+1, instance)
	if err == nil || !strings.Contains(err.Error(), "fs.inotify.max_user_instances is ") || !strings.Contains(err.Error(), "12 of the 13 inotify instances") || open != 0 {
		t.Errorf("%v, %d are kept", err, open)
	}
	if err := checkInotify(1); err != nil {
		t.Error(err)
	}
}
