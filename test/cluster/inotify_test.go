package cluster

import (
	"os"
	"strconv"
	"strings"
	"testing"
)

// A cluster that would not get its inotify instances is refused with the name of the limit.
func TestInotifyLimit(t *testing.T) {
	text, err := os.ReadFile("/proc/sys/fs/inotify/max_user_instances")
	if err != nil {
		t.Fatal(err)
	}
	limit, err := strconv.Atoi(strings.TrimSpace(string(text)))
	if err != nil {
		t.Fatal(err)
	}
	if err := checkInotify(1); err != nil {
		t.Error(err)
	}
	err = checkInotify(limit + 1)
	if err == nil || !strings.Contains(err.Error(), "fs.inotify.max_user_instances is "+strconv.Itoa(limit)+", and ") {
		t.Errorf("%v", err)
	}
	if err := checkInotify(1); err != nil {
		t.Errorf("the check keeps its instances: %v", err)
	}
}
