package cli

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/tare-mesh/tare/internal/cli/console"
	"github.com/tare-mesh/tare/internal/result"
	"github.com/tare-mesh/tare/test/must"
)

// terminal opens a pseudo-terminal: the side of an SSH server, and the side of a program.
func terminal(t *testing.T) (server, program *os.File) {
	t.Helper()
	server = must.Get(os.OpenFile("/dev/ptmx", os.O_RDWR|syscall.O_NOCTTY, 0))(t)
	must.OK(t, unix.IoctlSetPointerInt(int(server.Fd()), unix.TIOCSPTLCK, 0))
	n := must.Get(unix.IoctlGetInt(int(server.Fd()), unix.TIOCGPTN))(t)
	program = must.Get(os.OpenFile(fmt.Sprintf("/dev/pts/%d", n), os.O_RDWR|syscall.O_NOCTTY, 0))(t)
	return server, program
}

// hungUp is an experiment of many trials without a mesh.
const hungUp = `apiVersion: tare.dev/v1beta1
kind: Experiment
metadata: {name: hung-up}
factors: {mesh: [none], rate: [50]}
phases: {warmup: 1s, measure: 2s, drain: 1s}
blocks: 20
`

// processesWith lists the processes whose command line contains text.
func processesWith(t *testing.T, text string) (found []string) {
	t.Helper()
	lines := must.Get(filepath.Glob("/proc/[0-9]*/cmdline"))(t)
	for _, path := range lines {
		b, err := os.ReadFile(path)
		if err == nil && bytes.Contains(b, []byte(text)) {
			found = append(found, string(bytes.ReplaceAll(b, []byte{0}, []byte{' '})))
		}
	}
	return found
}

// An SSH session that drops hangs up the terminal. The run then ends as after an
// interrupt: nothing is left, finished trials are kept, and it can be resumed.
func TestHangUpOfTheTerminal(t *testing.T) {
	if testing.Short() {
		t.Skip("runs an experiment")
	}
	bin := programs(t)
	dir := t.TempDir()
	file, out := filepath.Join(dir, "hung-up.yaml"), filepath.Join(dir, "run")
	must.OK(t, os.WriteFile(file, []byte(hungUp), 0o600))
	// Under nohup, tests ignore SIGHUP. A program started by who receives it does not.
	hangUps := make(chan os.Signal, 1)
	signal.Notify(hangUps, syscall.SIGHUP)
	defer signal.Stop(hangUps)
	server, program := terminal(t)
	defer server.Close()
	cmd := exec.Command(filepath.Join(bin, "tare"), "run", file, "--out", out)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = program, program, program
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true, Ctty: 0}
	must.OK(t, cmd.Start())
	must.OK(t, program.Close())
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	go func() { _, _ = io.Copy(io.Discard, server) }() // the screen
	second := func() bool {
		begun, _ := filepath.Glob(filepath.Join(out, result.TrialsDir, "*"))
		return len(begun) > 1
	}
	for deadline := time.Now().Add(time.Minute); !second(); time.Sleep(50 * time.Millisecond) {
		select {
		case err := <-ended:
			t.Fatalf("the run ended before its second trial: %v", err)
		default:
		}
		if time.Now().After(deadline) {
			_ = cmd.Process.Kill()
			t.Fatal("the second trial did not begin")
		}
	}
	if err := server.Close(); err != nil { // the hang-up
		t.Fatal(err)
	}
	select {
	case <-ended:
	case <-time.After(time.Minute):
		_ = cmd.Process.Kill()
		t.Fatal("tare goes on after its terminal was hung up")
	}
	if code := cmd.ProcessState.ExitCode(); code != console.Interrupted {
		t.Errorf("%v, want exit code %d", cmd.ProcessState, console.Interrupted)
	}
	if left := processesWith(t, bin); len(left) > 0 {
		t.Errorf("left running: %q", left)
	}
	d := must.Get(result.Open(out))(t)
	records, err := d.Records()
	if err != nil || len(records) == 0 || len(records) > 19 {
		t.Errorf("%d records, %v", len(records), err)
	}
	if pending, err := d.Pending(); err != nil || len(pending) != 20-len(records) {
		t.Errorf("%d trials pending, %v", len(pending), err)
	}
}

// nohup ignores the hang-up signal, and tare goes on.
func TestHangUpIgnored(t *testing.T) {
	cmd := exec.Command("/bin/sh", "-c", `trap '' HUP; exec "$0" "$@"`, os.Args[0], "-test.run=^TestWaitsForSignals$", "-test.v")
	cmd.Env = append(os.Environ(), "TARE_TEST_WAITS=1")
	out := must.Get(cmd.StdoutPipe())(t)
	must.OK(t, cmd.Start())
	var text strings.Builder
	await := func(word string) {
		t.Helper()
		b := make([]byte, 1024)
		for !strings.Contains(text.String(), word) {
			n, err := out.Read(b)
			text.Write(b[:n])
			if err != nil {
				t.Fatalf("no %q in %q: %v", word, text.String(), err)
			}
		}
	}
	await("waiting")
	must.OK(t, cmd.Process.Signal(syscall.SIGHUP))
	must.OK(t, cmd.Process.Signal(syscall.SIGTERM))
	await("interrupts: 1")
	_, _ = io.Copy(io.Discard, out)
	if err := cmd.Wait(); err != nil {
		t.Error(err)
	}
}

// The second interrupt ends a command that has nothing to clean up, such as one that waits for an answer of a cluster.
func TestSecondInterruptEnds(t *testing.T) {
	cmd := exec.Command(os.Args[0], "-test.run=^TestWaitsForSignals$", "-test.v")
	cmd.Env = append(os.Environ(), "TARE_TEST_WAITS=2")
	out := must.Get(cmd.StdoutPipe())(t)
	must.OK(t, cmd.Start())
	lines := bufio.NewScanner(out)
	for lines.Scan() {
		if text := lines.Text(); text == "waiting" || strings.HasPrefix(text, "interrupts:") {
			must.OK(t, cmd.Process.Signal(os.Interrupt))
		}
	}
	if err := cmd.Wait(); cmd.ProcessState.ExitCode() != console.Interrupted {
		t.Errorf("%v, want exit code %d", err, console.Interrupted)
	}
}

// One SIGTERM ends a command that does not check its context, such as the analysis of a damaged directory.
func TestUnheededSignalEnds(t *testing.T) {
	cmd := exec.Command(os.Args[0], "-test.run=^TestWaitsForSignals$", "-test.v")
	cmd.Env = append(os.Environ(), "TARE_TEST_WAITS=unheeded")
	out := must.Get(cmd.StdoutPipe())(t)
	must.OK(t, cmd.Start())
	for lines := bufio.NewScanner(out); lines.Scan(); {
		if lines.Text() == "waiting" {
			must.OK(t, cmd.Process.Signal(syscall.SIGTERM))
		}
	}
	if err := cmd.Wait(); cmd.ProcessState.ExitCode() != console.Interrupted {
		t.Errorf("%v, want exit code %d", err, console.Interrupted)
	}
}

// TestWaitsForSignals is the child of the tests above: it counts interrupts until the first one. In the second of them it
// then ignores the end of its context.
func TestWaitsForSignals(t *testing.T) {
	first := &interruption{}
	switch os.Getenv("TARE_TEST_WAITS") {
	case "":
		t.Skip("a child of another test")
	case "unheeded":
		unheededWithin = 200 * time.Millisecond
	case "1":
		first = &interruption{set: true, message: interruptedRun}
	}
	var stderr bytes.Buffer
	ctx, _, stop := interrupts(&stderr, first)
	defer stop()
	fmt.Println("waiting")
	<-ctx.Done()
	time.Sleep(100 * time.Millisecond) // a second signal would have come by now
	fmt.Println("interrupts:", strings.Count(stderr.String(), "interrupted:"))
	if !first.set {
		time.Sleep(30 * time.Second)
	}
}
