package proc

import (
	"os"
	"os/exec"
	"syscall"
	"testing"

	"github.com/tare-mesh/tare/internal/base/must"
)

// One scan ends the processes of several marks, and spares processes with other marks.
func TestKillMarked(t *testing.T) {
	start := func(mark string) *exec.Cmd {
		c := child("sleep")
		cmd := exec.Command(c.Path, c.Args...)
		cmd.Env = append(append(os.Environ(), c.Env...), markVariable+"="+mark)
		must.OK(t, cmd.Start())
		t.Cleanup(func() { _ = cmd.Process.Kill() })
		return cmd
	}
	one, two, other := start("test-one"), start("test-two"), start("test-other")
	must.OK(t, killMarked("test-one", "", "test-two"))
	_ = other.Process.Signal(syscall.SIGTERM) // the one that it dies of, unless the scan has killed it
	for cmd, want := range map[*exec.Cmd]string{one: "signal: killed", two: "signal: killed", other: "signal: terminated"} {
		if err := cmd.Wait(); err == nil || err.Error() != want {
			t.Errorf("%v, want %s", err, want)
		}
	}
}
