package cli

import (
	"fmt"
	"strings"
	"syscall"
	"testing"

	"github.com/tare-mesh/tare/internal/base/hint"
	"github.com/tare-mesh/tare/internal/base/proc"
	"github.com/tare-mesh/tare/internal/experiment"
)

func TestPinnedProcessorsExist(t *testing.T) {
	allowed, err := proc.AllowedCPUs()
	if err != nil || len(allowed) == 0 {
		t.Skipf("%v, %v", allowed, err)
	}
	first := fmt.Sprint(allowed[0])
	for _, list := range []string{first, first + ",999", "0-1023"} {
		if err := cpusExist(map[string]string{"load": list}); err != nil {
			t.Errorf("%s: %v", list, err)
		}
	}
	err = cpusExist(map[string]string{"load": "999", "app": first, "data": "1000-1020"})
	if err == nil || !strings.Contains(err.Error(), "platform.cpus.load: this process may use none of the processors 999") || !strings.Contains(err.Error(), "platform.cpus.data") ||
		strings.Contains(err.Error(), "platform.cpus.app") || !strings.HasPrefix(hint.Of(err), "processors that it may use: "+first) {
		t.Errorf("%v, hint %q", err, hint.Of(err))
	}
	if got := listed([]int{0, 1, 2, 6, 8, 9}); got != "0-2,6,8-9" {
		t.Errorf("%q", got)
	}
}

// More connections than a process may open files are refused before the first trial.
func TestConnectionsFit(t *testing.T) {
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		t.Fatal(err)
	}
	for more, refused := range map[int]bool{-ownFiles: false, -ownFiles + 1: true} {
		err := connectionsFit(experiment.Factors{"connections": []int{1, int(limit.Max) + more}})
		if (err != nil) != refused || refused && !strings.Contains(err.Error(), "factors.connections[1]: ") {
			t.Errorf("%d beside the limit: %v", more, err)
		}
	}
}
