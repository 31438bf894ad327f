package load

import (
	"bytes"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/tare-mesh/tare/test/must"
	"github.com/tare-mesh/tare/test/programtest"
)

const serversScript = programtest.ServersScript

// serversDir is where tools/servers/install.sh unpacks Debian's servers. Tests may set HOME, so it is found once.
var serversDir = sync.OnceValue(func() string {
	cache, err := os.UserCacheDir()
	if err != nil {
		return ""
	}
	return filepath.Join(cache, "tare", "servers")
})

// program finds a server.
func program(t *testing.T, name string) string {
	t.Helper()
	path, _ := programtest.Server(t, name)
	return path
}

// process is a server under test.
type process struct {
	cmd    *exec.Cmd
	output bytes.Buffer // read it after the end
	ended  chan struct{}
}

// launch starts a server, which ends with the test.
func launch(t *testing.T, path string, args ...string) *process {
	t.Helper()
	p := &process{cmd: exec.Command(path, args...), ended: make(chan struct{})}
	p.cmd.Stdout, p.cmd.Stderr = &p.output, &p.output
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // its children end with it
	p.cmd.WaitDelay = 10 * time.Second                      // one that left the group may keep the output open
	libraries := filepath.Join(serversDir(), "usr", "lib", "*-linux-gnu")
	if found, _ := filepath.Glob(libraries); len(found) > 0 {
		p.cmd.Env = append(os.Environ(), "LD_LIBRARY_PATH="+strings.Join(found, ":"))
	}
	must.OK(t, p.cmd.Start())
	go func() {
		_ = p.cmd.Wait()
		close(p.ended)
	}()
	t.Cleanup(func() {
		_ = syscall.Kill(-p.cmd.Process.Pid, syscall.SIGKILL)
		<-p.ended
		if t.Failed() {
			t.Logf("%s: %.4000s", filepath.Base(path), p.output.String())
		}
	})
	return p
}

// crashed reports whether the server has aborted, or was killed for a fault of memory.
func (p *process) crashed() bool {
	select {
	case <-p.ended:
		status, ok := p.cmd.ProcessState.Sys().(syscall.WaitStatus)
		return ok && status.Signaled() && slices.Contains([]syscall.Signal{syscall.SIGABRT, syscall.SIGSEGV, syscall.SIGBUS}, status.Signal())
	default:
		return false
	}
}

// stop ends the server with a signal that lets it finish its work, and returns its output.
func (p *process) stop(t *testing.T, signal syscall.Signal) string {
	t.Helper()
	_ = p.cmd.Process.Signal(signal)
	select {
	case <-p.ended:
	case <-time.After(time.Minute):
		t.Fatal("the server does not end")
	}
	return p.output.String()
}

// await waits until the server listens.
func (p *process) await(t *testing.T, network, address string) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(10 * time.Millisecond) {
		c, err := net.Dial(network, address)
		if err == nil {
			_ = c.Close()
			return
		}
		select {
		case <-p.ended:
			t.Fatalf("the server has ended: %s", p.output.String())
		default:
		}
		if time.Now().After(deadline) {
			t.Fatal(err)
		}
	}
}

var hosts atomic.Int64

// host is a loopback address of the test's own, on which every port is free.
func host() string {
	n := int64(os.Getpid())<<8 + hosts.Add(1)
	return fmt.Sprintf("127.%d.%d.%d", 251+n>>16&3, n>>8&255, 1+n&127) // deployments have 1 to 250
}

// write writes a file of the test. Servers whose children are of another user read it.
func write(t *testing.T, dir, name, text string) string {
	t.Helper()
	path := must.File(t, dir, name, text)
	must.OK(t, os.Chmod(path, 0o644))
	return path
}
