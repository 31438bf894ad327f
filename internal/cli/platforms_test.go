package cli

import (
	"fmt"
	"os"
	"os/exec"
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
	for _, list := range []string{first, listed(allowed)} {
		if err := cpusExist(map[string]string{"load": list}); err != nil {
			t.Errorf("%s: %v", list, err)
		}
	}
	err = cpusExist(map[string]string{"load": "1000," + first + ",999", "app": first, "data": "1000-1020"})
	if err == nil || !strings.Contains(err.Error(), "platform.cpus.load: this process may not use 999-1000 of the processors 1000,") || !strings.Contains(err.Error(), "platform.cpus.data") ||
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

// A load with more connections than files names the limit, and not the server. It sends nothing.
func TestLoadBeyondTheLimitOfFiles(t *testing.T) {
	const inside = "TARE_TEST_FEW_FILES"
	if os.Getenv(inside) == "" {
		cmd := exec.Command("sh", "-c", `ulimit -n 256 && exec "$@"`, "sh", os.Args[0], "-test.run=^TestLoadBeyondTheLimitOfFiles$", "-test.v")
		cmd.Env = append(os.Environ(), inside+"=1")
		if out, err := cmd.CombinedOutput(); err != nil || !strings.Contains(string(out), "--- PASS: TestLoadBeyond") {
			t.Errorf("%v\n%s", err, out)
		}
		return
	}
	_, err := runLoadCommand(t, "http://127.0.0.1:1/", "-c", "2000", "-d", "1s")
	if err == nil || !strings.Contains(err.Error(), "--connections: 2000 connections and 32 other files are more than the 256 files that a process may open (ulimit -n)") ||
		!strings.Contains(hint.Of(err), "raise the limit to 2032") {
		t.Errorf("%v, hint %q", err, hint.Of(err))
	}
	if _, err := runLoadCommand(t, "http://127.0.0.1:1/", "-c", "224", "-d", "100ms", "--warmup", "0s"); err == nil || strings.Contains(err.Error(), "files") {
		t.Error(err)
	}
}
