package cli

import (
	"bytes"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/tare-mesh/tare/test/must"
)

// screen collects what a program writes to its terminal.
type screen struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (s *screen) Write(b []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.text.Write(b)
}

func (s *screen) has(text string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return strings.Contains(s.text.String(), text)
}

// On a terminal the key q ends the load with its report, and the terminal is as it was.
func TestLoadKeys(t *testing.T) {
	if testing.Short() {
		t.Skip("runs a load on a terminal")
	}
	bin := programs(t)
	server, program := terminal(t)
	defer server.Close()
	before, err := unix.IoctlGetTermios(int(program.Fd()), unix.TCGETS)
	must.OK(t, err)
	var seen screen
	go func() {
		b := make([]byte, 4096)
		for {
			n, err := server.Read(b)
			if _, _ = seen.Write(b[:n]); err != nil {
				return
			}
		}
	}()
	cmd := exec.Command(filepath.Join(bin, "tare"), "load", hello(t), "-r", "50", "-z", "10m", "--warmup", "0")
	cmd.Stdin, cmd.Stdout, cmd.Stderr = program, program, program
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	must.OK(t, cmd.Start())
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	await := func(text string) {
		t.Helper()
		for end := time.Now().Add(time.Minute); !seen.has(text); time.Sleep(20 * time.Millisecond) {
			if time.Now().After(end) {
				_ = cmd.Process.Kill()
				t.Fatalf("no %q: %q", text, seen.text.String())
			}
		}
	}
	for _, step := range []struct{ text, key string }{{"q ends the load", ""}, {" errors  p50 ", "q"}} {
		await(step.text)
		must.Get(server.WriteString(step.key))(t)
	}
	select {
	case err = <-ended:
	case <-time.After(time.Minute):
		_ = cmd.Process.Kill()
		t.Fatal("q has not ended the load")
	}
	await("stopped before the measure window was over")
	after, errAfter := unix.IoctlGetTermios(int(program.Fd()), unix.TCGETS)
	if err != nil || errAfter != nil || *after != *before {
		t.Errorf("%v, %v: the terminal was %+v and is %+v", err, errAfter, before, after)
	}
}
