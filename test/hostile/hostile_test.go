package hostile

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/tare-mesh/tare/internal/load"
)

// Bounds of every run.
const (
	measure   = 300 * time.Millisecond
	timeout   = 300 * time.Millisecond
	drain     = time.Second // the least of tare load
	overtime  = 2 * time.Second
	maxMemory = 150 << 10 // KiB
)

// build builds the real program once.
func build(t *testing.T) string {
	t.Helper()
	if testing.Short() {
		t.Skip("takes seconds")
	}
	path := filepath.Join(t.TempDir(), "tare")
	if out, err := exec.Command("go", "build", "-o", path, "../../cmd/tare").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
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
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
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

// TestHostileServers checks time and memory of the real program against every script.
func TestHostileServers(t *testing.T) {
	tare, config := build(t), selfSigned(t)
	for _, s := range scripts {
		for _, rate := range []string{"max", "200"} {
			t.Run(s.name+"/"+rate, func(t *testing.T) {
				t.Parallel()
				scheme := "http://"
				if strings.Contains(s.args, "-k") {
					scheme = "https://"
				}
				args := append([]string{scheme + s.start(t, config) + "/", "--rate", rate, "-c", "16", "--warmup", "0s", "--calibrate", "0s", "-d", measure.String(), "-t", timeout.String()}, strings.Fields(s.args)...)
				limit := timeout + measure + drain + overtime // connections may take their time-out, too
				o := run(t, tare, 10*limit, args...)
				t.Logf("%v, %d MiB, CPU %v: %v %v", o.took.Round(time.Millisecond), o.memory>>10, o.cpu, o.report.Classes, o.report.Errors)
				if o.took > limit {
					t.Errorf("took %v, limit %v", o.took, limit)
				}
				if o.memory > maxMemory {
					t.Errorf("%d MiB, limit %d", o.memory>>10, maxMemory>>10)
				}
				if o.report.Intended != o.report.Requests+o.report.Dropped {
					t.Errorf("%d requests due, %d ended", o.report.Intended, o.report.Requests)
				}
			})
		}
	}
}
