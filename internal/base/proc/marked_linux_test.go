package proc

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/tare-mesh/tare/test/must"
)

// One scan ends the processes of several marks, and spares processes with other marks, in limits and in environments.
func TestKillMarked(t *testing.T) {
	for name, marked := range map[string]func(*exec.Cmd, string) error{
		"limit": func(cmd *exec.Cmd, mark string) error { return marking(mark, cmd.Start) },
		"environment": func(cmd *exec.Cmd, mark string) error {
			cmd.Env = append(cmd.Env, markVariable+"="+mark)
			return cmd.Start()
		},
	} {
		t.Run(name, func(t *testing.T) {
			first, second := newMark(), newMark()
			start := func(mark string) *exec.Cmd {
				c := child("sleep")
				cmd := exec.Command(c.Path, c.Args...)
				cmd.Env = append(os.Environ(), c.Env...)
				must.OK(t, marked(cmd, mark))
				t.Cleanup(func() { _ = cmd.Process.Kill() })
				return cmd
			}
			one, two, other := start(first), start(second), start(newMark())
			must.OK(t, killMarked(first, "", second))
			_ = other.Process.Signal(syscall.SIGTERM) // the one that it dies of, unless the scan has killed it
			for cmd, want := range map[*exec.Cmd]string{one: "signal: killed", two: "signal: killed", other: "signal: terminated"} {
				if err := cmd.Wait(); err == nil || err.Error() != want {
					t.Errorf("%v, want %s", err, want)
				}
			}
			if mark := MarkOf(os.Getpid()); mark != "" {
				t.Errorf("this process keeps the mark %s", mark)
			}
		})
	}
}

// escape is a program that leaves: a process in a session of its own, whose parents have ended, and without an environment.
const escape = `setsid setsid env -i sh -c 'sleep 600 & echo $!; exit' & exec sleep 600`

func init() {
	roles["escaping"] = func() { // stands for tare
		p, err := Start(context.Background(), Command{Path: "sh", Args: []string{"-c", escape}, Tree: true})
		if err == nil {
			for escapedOf(p) == 0 {
			}
			fmt.Println(p.PID, escapedOf(p))
		}
		fmt.Println("ready", err)
		select {}
	}
}

// escapedOf returns the process that has left, 0 before it is there.
func escapedOf(p *Process) (pid int) {
	for _, line := range p.Tail(9) {
		if n, err := strconv.Atoi(line); err == nil {
			pid = n
		}
	}
	return pid
}

// An escaped process ends with the program that started it and, if tare is killed, at the next start of tare.
func TestEscapedProcess(t *testing.T) {
	p := start(t, Command{Path: "sh", Args: []string{"-c", escape}, Tree: true})
	eventually(t, "the program has left", func() bool { return escapedOf(p) > 0 })
	escaped := escapedOf(p)
	if got := MarkOf(escaped); got != p.Mark() || got == "" {
		t.Errorf("the escaped process has the mark %q, want %q", got, p.Mark())
	}
	must.OK(t, p.Stop(t.Context(), 0))
	if alive(escaped) {
		t.Errorf("process %d is left", escaped)
	}

	tare := start(t, child("escaping"))
	ready := func() bool { return strings.HasPrefix(strings.Join(tare.Tail(1), ""), "ready") }
	eventually(t, "the other tare is ready", ready)
	var program int
	_, err := fmt.Sscan(tare.Tail(9)[0], &program, &escaped)
	must.OK(t, err)
	must.OK(t, syscall.Kill(tare.PID, syscall.SIGKILL))
	<-tare.Done()
	eventually(t, "the kernel has ended the program", func() bool { return !alive(program) })
	if !alive(escaped) {
		t.Fatal("the escaped process has ended by itself")
	}
	_ = must.Get(Sweep())(t)
	if alive(escaped) {
		_ = syscall.Kill(escaped, syscall.SIGKILL)
		t.Errorf("process %d is left", escaped)
	}
}
