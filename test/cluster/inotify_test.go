package cluster

import (
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

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
