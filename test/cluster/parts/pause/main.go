// Pause is the first process of every pod: it holds the pod's namespaces open and, where the pod's
// containers share a process namespace, reaps what they orphan.
package main

import (
	"os"
	"os/signal"

	"golang.org/x/sys/unix"
)

func main() {
	signals := make(chan os.Signal, 16)
	signal.Notify(signals, unix.SIGINT, unix.SIGTERM, unix.SIGCHLD)
	for received := range signals {
		if received != unix.SIGCHLD {
			return
		}
		reap()
	}
}

// reap takes the exit status of every child that has ended: one SIGCHLD may stand for many.
func reap() {
	for {
		if pid, err := unix.Wait4(-1, nil, unix.WNOHANG, nil); pid <= 0 || err != nil {
			return
		}
	}
}
