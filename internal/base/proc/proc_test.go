package proc

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/tare-mesh/tare/test/must"
)

// The test binary also plays the children. This variable contains the role.
const roleVariable = "TARE_PROC_TEST_ROLE"

var roles = map[string]func(){
	"sleep":    func() { fmt.Println("ready"); time.Sleep(time.Minute) },
	"stubborn": func() { signal.Ignore(syscall.SIGTERM); fmt.Println("ready"); time.Sleep(time.Minute) },
	"lines": func() {
		for i := range 100 {
			fmt.Println("line", i)
		}
		fmt.Fprintln(os.Stderr, "last words")
		os.Exit(3)
	},
	"affinity": func() { _, _ = io.Copy(os.Stdout, strings.NewReader(statusLine("Cpus_allowed_list"))) },
	"parent":   parent,
	"fd":       func() { b, _ := io.ReadAll(os.NewFile(3, "three")); fmt.Printf("%s %s", b, os.Getenv("EXTRA")) },
}

func TestMain(m *testing.M) {
	if role := roles[os.Getenv(roleVariable)]; role != nil {
		role()
		os.Exit(0)
	}
	dir, err := os.MkdirTemp("", "tare-state-")
	if err != nil {
		panic(err)
	}
	os.Setenv("XDG_STATE_HOME", dir)
	code := m.Run()
	os.RemoveAll(dir)
	os.Exit(code)
}

// parent stands for tare: it starts two children and waits to be killed.
func parent() {
	for range 2 {
		p, err := Start(context.Background(), child("sleep"))
		if err != nil {
			fmt.Println("error", err)
			os.Exit(1)
		}
		fmt.Println(p.PID)
	}
	fmt.Println("started")
	time.Sleep(time.Minute)
}

func child(role string) Command {
	return Command{Path: os.Args[0], Args: []string{"-test.run=^$"}, Env: []string{roleVariable + "=" + role}}
}

func start(t *testing.T, c Command) *Process {
	t.Helper()
	p := must.Get(Start(t.Context(), c))(t)
	t.Cleanup(func() { _ = p.Stop(context.Background(), 0) })
	return p
}

func statusLine(key string) string {
	b, _ := os.ReadFile("/proc/self/status")
	for line := range strings.Lines(string(b)) {
		if v, ok := strings.CutPrefix(line, key+":"); ok {
			return strings.TrimSpace(v)
		}
	}
	return ""
}

// eventually waits on a condition that nothing announces.
func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	deadline := time.After(10 * time.Second)
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for !ok() {
		select {
		case <-tick.C:
		case <-deadline:
			t.Fatalf("still not so after 10 s: %s", what)
		}
	}
}

func ready(t *testing.T, p *Process) {
	t.Helper()
	eventually(t, "child is ready", func() bool { return slices.Contains(p.Tail(9), "ready") })
}

func alive(pid int) bool { _, err := identify(pid); return err == nil }

func TestString(t *testing.T) {
	for _, tc := range []struct {
		c    Command
		want string
	}{
		{Command{Path: "/bin/echo", Args: []string{"a", "b c", "", "it's", "$HOME", "--x=1"}}, `/bin/echo a 'b c' '' 'it'\''s' '$HOME' --x=1`},
		{Command{Path: "envoy", Env: []string{"A=1", "B=x y"}, Dir: "/tmp/a b"}, `cd '/tmp/a b' && A=1 B='x y' envoy`},
		{Command{Path: "envoy", CPUs: "0-1", Args: []string{"~", "#", "a\nb"}}, "taskset -c 0-1 envoy '~' '#' 'a\nb'"},
	} {
		if got := tc.c.String(); got != tc.want {
			t.Errorf("got  %s\nwant %s", got, tc.want)
		}
	}
}

// A shell runs the printed command as Start does.
func TestStringPastes(t *testing.T) {
	c := Command{Path: "printf", Args: []string{"%s|", "a b", "it's", `"$(id)"`, "\\n", "*", "~", "é", "-"}, Env: []string{"LC_ALL=C"}, Dir: t.TempDir()}
	got, err := exec.Command("sh", "-c", c.String()).CombinedOutput()
	if err != nil {
		t.Fatal(err, string(got))
	}
	var want bytes.Buffer
	c.Stdout = &want
	must.OK(t, start(t, c).Wait())
	if string(got) != want.String() || want.Len() == 0 {
		t.Errorf("the shell prints %q, Start %q", got, want.String())
	}
}

func TestParseCPUs(t *testing.T) {
	for list, want := range map[string][]int{"0": {0}, "0-3,6": {0, 1, 2, 3, 6}, "6, 0-1": {6, 0, 1}, "0-8:4": {0, 4, 8}, "1,0,1": {1, 0}} {
		if got, err := ParseCPUs(list); err != nil || !slices.Equal(got, want) {
			t.Errorf("%q: %v, %v, want %v", list, got, err, want)
		}
	}
	for _, bad := range []string{"", "a", "-1", "3-1", "0-4:0", "99999999999", "+1", "0-", "1,,2", "0-1024"} {
		if got, err := ParseCPUs(bad); err == nil {
			t.Errorf("%q: %v, want an error", bad, got)
		}
	}
}

func TestFilesEnvAndStdout(t *testing.T) {
	r, w, err := os.Pipe()
	must.OK(t, err)
	defer r.Close()
	fmt.Fprint(w, "hello")
	w.Close()
	var out bytes.Buffer
	c := child("fd")
	c.Files, c.Stdout, c.Env = []*os.File{r}, &out, append(c.Env, "EXTRA=there")
	must.OK(t, start(t, c).Wait())
	if got := out.String(); got != "hello there" {
		t.Errorf("got %q", got)
	}
}

func TestExitError(t *testing.T) {
	for _, log := range []string{"", filepath.Join(t.TempDir(), "log")} {
		c := child("lines")
		c.Log = log
		if log != "" {
			must.OK(t, os.WriteFile(log, []byte("of an earlier process\n"), 0o600))
		}
		p := start(t, c)
		err := p.Wait()
		var exit *ExitError
		if !errors.As(err, &exit) || exit.State != "exit status 3" || exit.Stopped {
			t.Fatalf("log %q: %v", log, err)
		}
		if len(exit.Log) != tailLines || exit.Log[tailLines-1] != "last words" || exit.Log[0] != "line 81" {
			t.Errorf("log %q: %q", log, exit.Log)
		}
		if !strings.Contains(err.Error(), c.String()) || !strings.Contains(err.Error(), "last words") {
			t.Errorf("the message lacks the command or its log: %v", err)
		}
		if n := len(p.Tail(1000)); n != 101 {
			t.Errorf("log %q: %d lines, want 101", log, n)
		}
	}
}

func TestTailIsBounded(t *testing.T) {
	r := &Ring{}
	for i := range 20000 {
		fmt.Fprintf(r, "line %d\n", i)
	}
	if b := r.last(); len(b) > tailBytes || !bytes.HasSuffix(b, []byte("line 19999\n")) {
		t.Errorf("%d bytes", len(b))
	}
}

func TestStartMissing(t *testing.T) {
	if _, err := Start(t.Context(), Command{Path: "/nonexistent/program"}); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("got %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := Start(ctx, child("sleep")); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
}

func TestStop(t *testing.T) {
	for _, tc := range []struct {
		role  string
		grace time.Duration
		state string
	}{
		{"sleep", time.Minute, "signal: terminated"},
		{"stubborn", 50 * time.Millisecond, "signal: killed"},
	} {
		t.Run(tc.role, func(t *testing.T) {
			p := start(t, child(tc.role))
			ready(t, p)
			must.OK(t, p.Stop(t.Context(), tc.grace))
			var exit *ExitError
			if err := p.Wait(); !errors.As(err, &exit) || exit.State != tc.state || !exit.Stopped {
				t.Errorf("ended with %v, want %s", err, tc.state)
			}
			if alive(p.PID) {
				t.Error("still alive")
			}
			if err := p.Stop(t.Context(), 0); err != nil {
				t.Errorf("second stop: %v", err)
			}
		})
	}
}

// A context that ends makes the grace zero.
func TestStopContext(t *testing.T) {
	p := start(t, child("stubborn"))
	ready(t, p)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	must.OK(t, p.Stop(ctx, time.Hour))
}

// The members of a group go with its leader.
func TestGroup(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("groups are ended on Linux alone")
	}
	p := start(t, Command{Path: "sh", Args: []string{"-c", "sleep 60 >/dev/null 2>&1 & echo $!"}})
	must.OK(t, p.Wait())
	var pid int
	must.Get(fmt.Sscan(strings.Join(p.Tail(1), ""), &pid))(t)
	eventually(t, "grandchild is gone", func() bool { return !alive(pid) })
}

func TestPinning(t *testing.T) {
	if runtime.GOOS != "linux" {
		c := child("affinity")
		c.CPUs = "0"
		if _, err := Start(t.Context(), c); !errors.Is(err, errors.ErrUnsupported) {
			t.Errorf("got %v", err)
		}
		return
	}
	free := statusLine("Cpus_allowed_list")
	allowed := must.Get(ParseCPUs(free))(t)
	last := fmt.Sprint(allowed[len(allowed)-1])
	for _, cpus := range []string{last, ""} { // the second: the starter's thread is restored
		var out bytes.Buffer
		c := child("affinity")
		c.CPUs, c.Stdout = cpus, &out
		must.OK(t, start(t, c).Wait())
		if want := map[bool]string{true: free, false: last}[cpus == ""]; out.String() != want {
			t.Errorf("CPUs %q: the child may run on %q, want %q", cpus, out.String(), want)
		}
	}
	for _, missing := range []string{"1023", last + ",1023", "x"} {
		c := child("affinity")
		c.CPUs = missing
		if p, err := Start(t.Context(), c); err == nil {
			_ = p.Stop(t.Context(), 0)
			t.Errorf("processors %s: no error", missing)
		}
	}
}

// startParent runs the stand-in for tare and returns the pids of its children.
func startParent(t *testing.T) (*exec.Cmd, []int) {
	t.Helper()
	c := child("parent")
	cmd := exec.Command(c.Path, c.Args...)
	cmd.Env = append(os.Environ(), c.Env...)
	out := must.Get(cmd.StdoutPipe())(t)
	must.OK(t, cmd.Start())
	t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	var pids []int
	for lines := bufio.NewScanner(out); lines.Scan() && lines.Text() != "started"; {
		var pid int
		if _, err := fmt.Sscan(lines.Text(), &pid); err != nil {
			t.Fatalf("the parent prints %q", lines.Text())
		}
		pids = append(pids, pid)
	}
	if len(pids) != 2 {
		t.Fatalf("children: %v", pids)
	}
	return cmd, pids
}

func TestChildrenDieWithTare(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("parent-death signals are Linux's")
	}
	cmd, pids := startParent(t)
	for _, pid := range pids {
		if !alive(pid) {
			t.Fatalf("child %d is not running", pid)
		}
	}
	must.OK(t, cmd.Process.Kill())
	_ = cmd.Wait()
	for _, pid := range pids {
		eventually(t, fmt.Sprintf("child %d is gone", pid), func() bool { return !alive(pid) })
	}
}
