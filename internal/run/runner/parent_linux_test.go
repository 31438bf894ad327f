package runner_test

import "syscall"

// diesWithItsParent leaves no process behind when the test itself is killed.
func diesWithItsParent() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
}
