package load

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tare-mesh/tare/internal/base/wait"
	"github.com/tare-mesh/tare/internal/load"
	"github.com/tare-mesh/tare/test/must"
	"github.com/tare-mesh/tare/test/programtest"
)

var built bool // tareProgram was called

var tareProgram = sync.OnceValues(func() (path string, err error) {
	dir, err := os.MkdirTemp("", "tare-load-")
	if err != nil {
		return "", err
	}
	return filepath.Join(dir, "tare"), programtest.Build(dir, "tare")
})

// TestMain removes the program that build has built.
func TestMain(m *testing.M) {
	code := m.Run()
	if built {
		if path, err := tareProgram(); err == nil {
			_ = os.RemoveAll(filepath.Dir(path))
		}
	}
	os.Exit(code)
}

// build builds the real program, once for all tests.
func build(t *testing.T) string {
	t.Helper()
	if testing.Short() {
		t.Skip("takes seconds")
	}
	built = true
	path := must.Get(tareProgram())(t)
	return path
}

// outcome is one run of tare load.
type outcome struct {
	report load.Report
	took   time.Duration
	cpu    time.Duration
	memory int // max resident set, KiB
	stderr string
}

// run runs tare load and reads its report. Exit codes other than 0 are fine: servers fail.
func run(t *testing.T, tare string, limit time.Duration, args ...string) (o outcome) {
	t.Helper()
	cmd := exec.Command(tare, append([]string{"load", "-o", "json"}, args...)...)
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	began := time.Now()
	must.OK(t, cmd.Start())
	ended := make(chan struct{})
	go func() {
		_ = cmd.Wait()
		close(ended)
	}()
	kill := time.After(limit)
	sample := time.NewTicker(5 * time.Millisecond)
	defer sample.Stop()
	for over := false; !over; {
		select {
		case <-ended:
			over = true
		case <-kill:
			_ = cmd.Process.Kill()
			<-ended
			t.Fatalf("still running after %v:\n%s", limit, stderr.String())
		case <-sample.C:
			o.memory = max(o.memory, highWater(cmd.Process.Pid))
		}
	}
	o.took, o.stderr = time.Since(began), stderr.String()
	o.cpu = cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()
	if err := json.Unmarshal(stdout.Bytes(), &o.report); err != nil {
		t.Fatalf("no report: %v\n%s\n%s", err, stdout.String(), stderr.String())
	}
	return o
}

// repeat calls do after each interval, until the test calls stop.
func repeat(t *testing.T, interval time.Duration, do func()) (stop func()) {
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		for wait.For(ctx, interval) == nil {
			do()
		}
	}()
	return func() {
		cancel()
		<-done
	}
}

// highWater is the max resident set of a process until now in KiB; 0 if unknown. The
// kernel's figure at the end of a child includes the parent's memory before exec.
func highWater(pid int) int {
	b, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	_, rest, found := strings.Cut(string(b), "VmHWM:")
	if !found {
		return 0
	}
	n, _ := strconv.Atoi(strings.Fields(rest)[0])
	return n
}
