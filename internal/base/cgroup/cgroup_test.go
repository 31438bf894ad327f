package cgroup

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/tare-mesh/tare/internal/base/hint"
	"github.com/tare-mesh/tare/internal/base/wait"
	"github.com/tare-mesh/tare/test/must"
)

// made is a group. Where this user may make none the error has a hint, and the test is skipped.
func made(t *testing.T, name string, l Limits) *Group {
	t.Helper()
	g, err := Make(name, l)
	if err != nil {
		if os.Getuid() == 0 && !strings.Contains(err.Error(), "delegate") && !strings.Contains(err.Error(), "read-only") || !strings.Contains(hint.Of(err), "systemd-run") {
			t.Fatalf("%v, hint %q", err, hint.Of(err))
		}
		t.Skip(err)
	}
	t.Cleanup(func() {
		if err := g.Remove(); err != nil {
			t.Error(err)
		}
	})
	return g
}

// A process that wants a core and may have a tenth of it is throttled in most periods.
func TestCPULimit(t *testing.T) {
	g := made(t, "test-cpu", Limits{CPU: 0.1})
	busy := exec.Command("sh", "-c", "read go; while :; do :; done")
	in, _ := busy.StdinPipe()
	must.OK(t, busy.Start())
	defer func() { _ = busy.Process.Kill(); _ = busy.Wait() }()
	must.OK(t, g.Add(busy.Process.Pid))
	_, _ = in.Write([]byte("\n"))
	must.OK(t, wait.Within(t.Context(), time.Minute, 50*time.Millisecond, func(context.Context) error {
		c, err := Of(busy.Process.Pid).Counts()
		if err == nil && (c.Periods < 5 || c.Throttled < 4 || c.Time <= 0 || c.OOMKills > 0) {
			err = fmt.Errorf("%+v", c)
		}
		return err
	}))
}

// A process above its memory limit is killed, and counted.
func TestMemoryLimit(t *testing.T) {
	g := made(t, "test-memory", Limits{Memory: 16 << 20})
	grows := exec.Command("sh", "-c", "read go; x=aaaaaaaaaaaaaaaa; while :; do x=$x$x; done")
	in, _ := grows.StdinPipe()
	must.OK(t, grows.Start())
	must.OK(t, g.Add(grows.Process.Pid))
	_, _ = in.Write([]byte("\n"))
	err := grows.Wait()
	status, _ := grows.ProcessState.Sys().(syscall.WaitStatus)
	if c, failed := g.Counts(); failed != nil || c.OOMKills != 1 || status.Signal() != syscall.SIGKILL {
		t.Errorf("%v, %+v, %v", err, c, failed)
	}
}

// Groups of a process that has ended are removed, and those of a process that runs are not.
func TestSweep(t *testing.T) {
	g := made(t, "sweep", Limits{CPU: 1})
	dir := g.dirs["cpu"]
	left := strings.Replace(dir, prefix, prefix+"4194305", 1) // above the kernel's largest process ID
	must.OK(t, os.Mkdir(left, 0o755))
	Sweep()
	if _, err := os.Stat(left); err == nil {
		t.Errorf("%s is left", left)
	}
	if _, err := os.Stat(dir); err != nil {
		t.Error(err)
	}
}

func TestOthersGroupsAreNotCounted(t *testing.T) {
	if g := Of(os.Getpid()); g != nil {
		t.Errorf("%+v is a group of tare", g)
	}
}
