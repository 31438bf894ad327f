package fetch

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"syscall"

	"golang.org/x/sys/unix"
)

// killed is the end of a program by a signal.
type killed struct{ by syscall.Signal }

func (k killed) Error() string { return "killed by " + unix.SignalName(k.by) }

// startHint is the hint for a program that does not run: the limit of the address space if there is one, the meaning of
// the signal that killed it, or else another. Envoy reserves address space before it prints its version.
func startHint(err error, otherwise string) string {
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_AS, &limit); err == nil && limit.Cur < maxAddressSpace {
		return fmt.Sprintf("the address space of this process is limited to %d MiB (RLIMIT_AS), less than the program may need: raise it (ulimit -v unlimited)", limit.Cur>>20)
	}
	k, wasKilled := errors.AsType[killed](err)
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		return "the machine is very busy, or the program hangs: start again when it is quieter"
	case !wasKilled:
		return otherwise
	case signalHints[k.by] != "":
		return signalHints[k.by]
	}
	return "another process ended it, or it crashed: start again"
}

// ended returns why a program failed. Its own limit of time and an interrupt come before the SIGKILL that they send.
func ended(ctx context.Context, cmd *exec.Cmd, err error) error {
	switch {
	case errors.Is(ctx.Err(), context.DeadlineExceeded):
		return fmt.Errorf("no end within %v: %w", runTimeout, ctx.Err())
	case ctx.Err() != nil:
		return ctx.Err()
	case cmd.ProcessState == nil:
		return err
	}
	if status, ok := cmd.ProcessState.Sys().(syscall.WaitStatus); ok && status.Signaled() {
		return killed{status.Signal()}
	}
	return err
}

var signalHints = map[syscall.Signal]string{
	syscall.SIGKILL: "the out-of-memory killer or another process ended it: look into dmesg, raise the memory limit, or start again",
	syscall.SIGXCPU: "the CPU time of this process is limited (RLIMIT_CPU): raise it (ulimit -t unlimited)",
	syscall.SIGILL:  "the program needs an instruction that this processor lacks: use one built for it",
}

// maxAddressSpace is a limit that no pinned program reaches, in bytes. Envoy reserves a few GiB.
const maxAddressSpace = 64 << 30
